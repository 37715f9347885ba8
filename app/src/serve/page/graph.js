// The task graph: columns are levels, places are fixed, live updates change classes and words only.

import { $, $$, h, s, icon } from "./dom.js";
import { LEVELS, RANK, age, countOf, fixes, isRunning, look, matches, outcome, plural, taskLink } from "./words.js";
import { ticking } from "./parts.js";

const TOP = 34;
// By the number of tasks: nodes with titles and edges, nodes with names, cells.
const SIZES = [
  { upTo: 60, width: 196, height: 46, gapX: 74, gapY: 14, sub: 6, rows: 99, edges: true, radius: 8 },
  { upTo: 400, width: 84, height: 21, gapX: 46, gapY: 5, sub: 6, rows: 19, radius: 5 },
  { upTo: Infinity, width: 14, height: 14, gapX: 44, gapY: 3, sub: 3, rows: 24, radius: 3, cells: true },
];

/** Returns the place of every task. Long edges run through invisible places in each level. */
function layout(run) {
  const size = SIZES.find((size) => run.tasks.length <= size.upTo);
  const column = new Map(run.levels.map((level, index) => [level.level, index]));
  const layers = run.levels.map((level) =>
    run.byLevel.get(level.level).map((task) => ({ id: task.id, h: size.height, in: task.dependencies.filter((id) => run.byId.has(id)) })));
  const chains = new Map();
  if (size.edges) {
    for (const layer of [...layers]) for (const node of [...layer]) {
      node.in = node.in.map((id) => {
        const task = run.byId.get(node.id), chain = [id];
        for (let c = column.get(run.byId.get(id).level) + 1; c < column.get(task.level); c++) {
          layers[c].push({ id: `${id}>${node.id}@${c}`, h: 6, in: [chain.at(-1)] });
          chain.push(`${id}>${node.id}@${c}`);
        }
        chains.set(`${id}>${node.id}`, [...chain, node.id]);
        return chain.at(-1);
      });
    }
  }
  const out = new Map();
  for (const node of layers.flat()) for (const id of node.in) out.set(id, [...(out.get(id) || []), node.id]);
  order(layers, out);
  const place = new Map(), columns = [];
  let x = 0, height = 0;
  layers.forEach((layer, index) => {
    const subs = Math.max(1, Math.ceil(layer.length / size.rows));
    let y = 0;
    layer.forEach((node, k) => {
      if (subs > 1) y = Math.floor(k / subs) * (size.height + size.gapY);
      place.set(node.id, { x: x + (subs > 1 ? (k % subs) * (size.width + size.sub) : 0), y, h: node.h });
      if (subs === 1) y += node.h + size.gapY;
      height = Math.max(height, place.get(node.id).y + node.h);
    });
    const width = subs * size.width + (subs - 1) * size.sub;
    columns.push({ level: run.levels[index].level, x, width });
    x += width + size.gapX;
  });
  if (size.edges) relax(layers, out, place, height, size.gapY);
  return { size, place, columns, chains, width: x - size.gapX / 2 + 14, height };
}

/** Sorts each layer by the mean place of its neighbours, eight times. */
function order(layers, out) {
  const index = new Map();
  const mark = () => layers.forEach((layer) => layer.forEach((node, k) => index.set(node.id, (k + 0.5) / layer.length)));
  const mean = (ids, otherwise) => (ids?.length ? ids.reduce((sum, id) => sum + index.get(id), 0) / ids.length : otherwise);
  mark();
  for (let round = 0; round < 8; round++) {
    for (const layer of round % 2 ? [...layers].reverse() : layers) {
      for (const node of layer) node.w = mean(round % 2 ? out.get(node.id) : node.in, index.get(node.id));
      layer.sort((a, b) => a.w - b.w);
      mark();
    }
  }
}

/** Moves nodes towards their neighbours, without overlaps. */
function relax(layers, out, place, height, gap) {
  for (const layer of layers) {
    const used = layer.reduce((sum, node) => sum + node.h + gap, -gap);
    layer.forEach((node) => (place.get(node.id).y += (height - used) / 2));
  }
  for (let round = 0; round < 30; round++) for (const layer of layers) {
    for (const node of layer) {
      const p = place.get(node.id), near = [...node.in, ...(out.get(node.id) || [])].map((id) => place.get(id));
      if (near.length) p.y += (near.reduce((sum, q) => sum + q.y + q.h / 2, 0) / near.length - p.h / 2 - p.y) / 2;
    }
    const places = layer.map((node) => place.get(node.id));
    let low = 0;
    for (const p of places) low = (p.y = Math.max(p.y, low)) + p.h + gap;
    let high = height;
    for (const p of places.reverse()) high = (p.y = Math.min(p.y, high - p.h)) - gap;
  }
}

const ruler = document.createElement("canvas").getContext("2d");
function fit(text, width) {
  ruler.font = `11.5px ${getComputedStyle(document.body).fontFamily}`;
  const wide = (text) => ruler.measureText(text).width > width;
  if (!wide(text)) return text;
  let low = 0, high = text.length;
  while (low < high) wide(`${text.slice(0, Math.ceil((low + high) / 2))}…`) ? (high = Math.ceil((low + high) / 2) - 1) : (low = Math.ceil((low + high) / 2));
  return `${text.slice(0, low).trimEnd()}…`;
}

export const nodeName = (run, task) =>
  `${task.id}, ${task.title}, ${[look(run, task)[2], isRunning(task) && fixes(run, task)].filter(Boolean).join(", ")}, level ${task.level}${task.dependencies.length ? `, needs ${task.dependencies.join(", ")}` : ""}`;

/** Returns the graph: an element, `update` for a changed run, `mounted` once it is in the document. */
export function graph(run) {
  const g = layout(run), { size, place } = g, nodes = new Map(), edges = [], gates = [];
  const port = (id, right) => [place.get(id).x + (right ? size.width : 0), place.get(id).y + place.get(id).h / 2 + TOP];
  const path = (from, to) => {
    const points = g.chains.get(`${from}>${to}`) || [from, to];
    return points.slice(1).map((id, index) => {
      const [a, b] = port(points[index], true), [x, y] = port(id), m = Math.max(24, (x - a) / 2);
      return `${index ? "L" : "M"}${a} ${b}C${a + m} ${b} ${x - m} ${y} ${x} ${y}`;
    }).join("");
  };
  const hot = s("g.hots"), all = s("g");
  for (const column of g.columns) all.append(...levelMarks(column));
  if (size.edges) for (const task of run.tasks) for (const id of task.dependencies) {
    if (!run.byId.has(id)) continue;
    const edge = s("path.edge", { d: path(id, task.id) });
    edges.push({ edge, from: id, to: task.id });
    all.append(edge);
  }
  for (const task of run.tasks) all.append(...node(task));
  all.append(hot);
  const svg = s(`svg.graph${size.cells ? ".huge" : ""}`, { role: "group", "aria-label": `Task graph, ${plural(run.levels.length, "level")}, ${plural(run.tasks.length, "task")}. Arrow keys move, Enter opens.` }, size.cells ? cellSymbols() : "", all);
  const foot = h("div");
  const el = h("div.card.stage", svg, foot);
  const zoomable = pan(svg, g.width + 26, g.height + TOP + (size.edges ? 50 : 34));

  function levelMarks({ level, x, width }) {
    const middle = x + width + size.gapX / 2, bottom = g.height + TOP;
    const mark = s("path.gd", { d: `M${middle} 1l8 8-8 8-8-8z` }), count = s("tspan", { dx: 5 }), running = s("text.lt.g", { x: middle, y: bottom + 20 }), title = s("title");
    const group = s("g", title, s("line.gl", { x1: middle, x2: middle, y1: 24, y2: bottom + 4 }), mark, running);
    gates.push({ level, group, mark, count, running, title });
    return [s("text.lt", { x, y: 13 }, `Level ${level}`, size.edges || size.cells ? "" : count), group];
  }
  function node(task) {
    const { x, y } = place.get(task.id);
    const link = s("a.node", { href: taskLink(run, task.id), "data-item": task.id, tabindex: nodes.size ? -1 : 0, transform: `translate(${x} ${y + TOP})` });
    const use = s("use.st", size.cells ? { width: 14, height: 14 } : size.edges ? { x: 11, y: 9, width: 13, height: 13 } : { x: 6, y: 4.5, width: 12, height: 12 });
    const word = s("text.x", { x: size.width - 10, y: 19.5 });
    if (size.cells) link.append(use);
    else {
      link.append(s("rect.b", { width: size.width, height: size.height, rx: size.radius }), use);
      link.append(s("text", size.edges ? { x: 31, y: 19.5 } : { x: 22, y: 14.5 }, size.edges ? task.id.slice(0, 20) : task.id.slice(-9)));
    }
    // A title that is cut is no part of the link's name.
    const words = size.edges && s("g", { "aria-hidden": "true", transform: link.getAttribute("transform") }, s("text.t", { x: 31, y: 36 }, fit(task.title, size.width - 42)), word);
    nodes.set(task.id, { link, use, word, words });
    return [link, words].filter(Boolean);
  }
  function update(next, query) {
    run = next;
    const merged = new Set(run.levels.filter((level) => level.status === "merged").map((level) => level.level));
    for (const task of run.tasks) {
      const { link, use, word, words } = nodes.get(task.id), [state, sign, text] = look(run, task), holds = task.status === "pending" && run.held.get(task.id);
      const kind = `node s-${state}${merged.has(task.level) ? " done" : ""}${holds ? ` held h-${holds}` : ""}${matches(run, task, query) ? "" : " dim"}${link.classList.contains("on") ? " on" : ""}`;
      put(link, "class", kind);
      if (words) put(words, "class", `${kind} words`);
      put(use, "href", `#${size.cells ? "cell" : "i"}-${sign}`);
      put(link, "aria-label", nodeName(run, task));
      const tries = task.attempts.length;
      // There is no room for both beside a long name.
      const said = task.id.length > 13 ? "" : task.status === "pending" && !task.next_attempt_at ? "" : tries > 1 && state === "run" ? (task.attempts.at(-1).fix ? "fixes a gate" : `attempt ${tries}`) : task.status === "completed" && state === "ok" ? (tries > 1 ? `${tries} attempts` : "") : text;
      if (word.textContent !== said) word.textContent = said;
    }
    for (const { edge, from, to } of edges) {
      const problem = run.byId.get(from).status, holds = run.held.get(to);
      const stuck = holds && (run.held.has(from) || problem === "blocked" || problem === "waiting");
      put(edge, "class", `edge${stuck ? ` e-${holds}` : isRunning(run.byId.get(to)) ? " e-run" : ""}`);
    }
    for (const { level, group, mark, count, running, title } of gates) {
      const one = run.levels.find((one) => one.level === level), gate = run.running_gate?.at === String(level) && run.running_gate;
      const state = one.awaits_approval ? "ask" : ["merged", "gating", "merging", "failed"].includes(one.status) ? LEVELS[one.status] : "off";
      put(group, "class", `s-${state}`);
      put(mark, "class", `gd${state === "off" ? "" : " on"}`);
      const texts = [[count, countOf([one])], [title, `Level ${level}: ${one.awaits_approval ? "waits for your approval" : one.status}`], [running, gate && size.edges ? `${gate.gate} ${ticking(age(gate.started_at))}` : ""]];
      for (const [element, text] of texts) if (element.textContent !== text) element.textContent = text;
    }
    foot.replaceChildren(legend(run, "graph"));
  }
  const kids = new Map();
  for (const task of run.tasks) for (const id of task.dependencies) kids.set(id, [...(kids.get(id) || []), task.id]);
  /** Shows what a task needs and what needs it. */
  function highlight(id) {
    for (const on of $$(".node.on", all)) on.classList.remove("on");
    svg.classList.toggle("hot", Boolean(id));
    if (!id) return hot.replaceChildren();
    const found = new Set([id]);
    for (const near of [(id) => run.byId.get(id).dependencies, (id) => kids.get(id) || []]) {
      const queue = [id], seen = new Set(queue);
      for (const one of queue) for (const next of near(one)) if (run.byId.has(next) && !seen.has(next)) (seen.add(next), found.add(next), queue.push(next));
    }
    for (const one of found) for (const part of [nodes.get(one).link, nodes.get(one).words]) part?.classList.add("on");
    const lines = [...found].flatMap((to) => run.byId.get(to).dependencies.filter((from) => found.has(from)).map((from) => path(from, to)));
    hot.replaceChildren(s("path.edge.hot", { d: lines.join("") }));
  }
  const idOf = (event) => event.target.closest?.(".node")?.dataset.item;
  svg.addEventListener("mouseover", (event) => {
    const id = idOf(event);
    highlight(id);
    if (id && !$("title", nodes.get(id).link)) nodes.get(id).link.append(s("title", nodeName(run, run.byId.get(id))));
  });
  svg.addEventListener("mouseleave", () => highlight());
  svg.addEventListener("focusin", (event) => {
    const id = idOf(event);
    if (!id) return;
    for (const { link } of nodes.values()) if (link.getAttribute("tabindex") === "0") link.setAttribute("tabindex", -1);
    nodes.get(id).link.setAttribute("tabindex", 0);
    highlight(id);
    zoomable.show(place.get(id), size);
  });
  svg.addEventListener("focusout", () => highlight());
  svg.addEventListener("keydown", (event) => {
    const id = idOf(event), way = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowDown: [0, 1], ArrowUp: [0, -1] }[event.key];
    if (!id || !way) return;
    event.preventDefault();
    const me = place.get(id);
    let best, least = Infinity;
    for (const task of run.tasks) {
      const p = place.get(task.id), dx = p.x - me.x, dy = p.y - me.y;
      const ahead = dx * way[0] + dy * way[1], aside = Math.abs(dx * way[1]) + Math.abs(dy * way[0]);
      if (ahead > 1 && ahead + aside * 2 < least) (least = ahead + aside * 2), (best = task.id);
    }
    if (best) nodes.get(best).link.focus({ preventScroll: true });
  });
  return { el, update, mounted: zoomable.fit, zoom: zoomable.zoom };
}

function put(element, name, value) {
  if (element.getAttribute(name) !== value) element.setAttribute(name, value);
}

/** One element for each cell: a frame with the sign in it. */
function cellSymbols() {
  return s("defs", ["ok", "run", "ver", "off", "bad", "ask", "warn", "again", "skip"].map((sign) =>
    s("symbol", { id: `cell-${sign}`, viewBox: "0 0 14 14" }, s("rect.b", { x: 0.5, y: 0.5, width: 13, height: 13, rx: 3 }), sign === "off" ? "" : s("use", { href: `#i-${sign}`, x: 2, y: 2, width: 10, height: 10 }))));
}

/** Lets a drawing be zoomed and panned. It never shows more than 100 % by itself. */
function pan(svg, width, height) {
  let box = [0, 0, width, height], whole = box, drag;
  const put = () => svg.setAttribute("viewBox", box.map((n) => n.toFixed(1)).join(" "));
  function fit() {
    const room = svg.parentNode.clientWidth || width, scale = Math.min(1, Math.max(0.3, room / width));
    const left = room / scale > width ? -18 - (room / scale - width) / 2 : -18;
    whole = [left, -12, room / scale, height];
    box = [...whole];
    svg.style.height = `${Math.min(height * scale, innerHeight * 0.9)}px`;
    put();
  }
  function zoom(factor, x = 0.5, y = 0.5) {
    if (!factor) box = width > whole[2] ? [-18, -12, width, height] : [...whole];
    else {
      const w = box[2] / factor, h = box[3] / factor;
      box = [box[0] + (box[2] - w) * x, box[1] + (box[3] - h) * y, w, h];
    }
    put();
  }
  /** Brings a place into view. */
  function show({ x, y }, size) {
    if (x < box[0] || x + size.width > box[0] + box[2]) box[0] = x - box[2] / 2;
    if (y + TOP < box[1] || y + TOP + size.height > box[1] + box[3]) box[1] = y - box[3] / 2;
    put();
  }
  svg.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    const r = svg.getBoundingClientRect();
    zoom(event.deltaY < 0 ? 1.15 : 0.87, (event.clientX - r.x) / r.width, (event.clientY - r.y) / r.height);
  }, { passive: false });
  svg.addEventListener("dragstart", (event) => event.preventDefault());
  svg.addEventListener("pointerdown", (event) => (drag = { x: event.clientX, y: event.clientY, box: [...box] }));
  svg.addEventListener("pointermove", (event) => {
    if (!drag || !event.buttons) return;
    const scale = box[2] / svg.clientWidth, dx = event.clientX - drag.x, dy = event.clientY - drag.y;
    if (Math.abs(dx) + Math.abs(dy) > 4) drag.moved = true;
    box = [drag.box[0] - dx * scale, drag.box[1] - dy * scale, box[2], box[3]];
    put();
  });
  // The end of a drag is no click on a task.
  svg.addEventListener("click", (event) => drag?.moved && event.preventDefault());
  return { fit, zoom, show };
}

/** The graph on a narrow page: the tasks of each level as chips. */
export function chips(run, query) {
  const tiny = run.tasks.length > 60, signs = { ok: "✓", run: "▸", ver: "◐", bad: "✗", ask: "?", warn: "!", again: "↻", skip: "–", off: "·" };
  return h("div.card.vert", run.levels.map((level) => {
    const tasks = run.byLevel.get(level.level).map((task) => [task, look(run, task)]).sort((a, b) => RANK[a[1][2]] - RANK[b[1][2]]);
    return h("section", h("h3", h("b", `Level ${level.level}`), ` ${level.status}, ${countOf([level], " of ", " done")}`),
      h(`div.g${tiny ? ".tiny" : ""}`, tasks.map(([task, [state, sign]]) => {
        const holds = task.status === "pending" && run.held.get(task.id);
        return h(`a.chip.s-${state}`, { href: taskLink(run, task.id), "aria-label": nodeName(run, task), "data-item": task.id, "data-key": task.id, class: `${holds ? `held h-${holds}` : ""}${matches(run, task, query) ? "" : " dim"}` },
          tiny ? signs[sign] : [icon(sign, state), h("span", task.id)]);
      })));
  }));
}

/** The signs in use, and the buttons that zoom. */
export function legend(run, view) {
  const entries = new Map();
  for (const task of run.tasks) {
    if (view === "graph") {
      const [state, sign, word] = look(run, task);
      entries.set(word, [state, sign]);
    } else for (const attempt of task.attempts) entries.set(outcome(attempt, task)[2].split(":")[0], outcome(attempt, task));
  }
  const shape = (...parts) => s("svg.shape", { width: 16, height: 12 }, parts);
  const diamond = (on) => s(`path.gd${on ? ".on" : ""}`, { d: "M8 1l5 5-5 5-5-5z" });
  return h("div.foot",
    h("div.legend", { "aria-hidden": "true" },
      [...entries].map(([word, [state, sign]]) => h("span", icon(sign, state), word)),
      view === "graph"
        ? [run.held.size ? h("span", shape(s("rect.heldup", { x: 1, y: 1.5, width: 14, height: 9, rx: 2.5 })), "held up") : "", h("span.s-off", shape(diamond()), "merge")]
        : [h("span", shape(s("rect", { width: 16, height: 10, y: 1, rx: 2, fill: "url(#hatch)" })), "verification"), h("span.s-ok", shape(diamond(true)), "merged")]),
    h("div.zoom", h("button.ib", { type: "button", "data-zoom": 1.4, "aria-label": "Zoom in" }, "+"), h("button.ib", { type: "button", "data-zoom": 0.714, "aria-label": "Zoom out" }, "−"), h("button.ib", { type: "button", "data-zoom": 0 }, "Fit")));
}
