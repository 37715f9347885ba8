// The timeline: a lane for gates and merges, one for what waits for you, one for each worker. A bar is an attempt.

import { $, h, s } from "./dom.js";
import { GATES, age, at, dur, gateLink, gateName, isDriven, kindOf, matches, now, outcome, taskLink } from "./words.js";
import { legend } from "./graph.js";

const STEPS = [200, 500, 1e3, 5e3, 15e3, 6e4, 12e4, 3e5, 6e5, 9e5, 18e5, 36e5, 72e5, 216e5, 864e5];
const TOP = 26;

/** Returns the timeline: an element, `update` for a changed run, `mounted` once it is in the document. */
export function timeline(run) {
  let query = "", view = null, drag = null, pressed = false, follow = true;
  const svg = s("svg.tl", { role: "group", "aria-label": "Timeline of attempts by worker, gates and merges" });
  const foot = h("div"), el = h("div.card.stage", h("div.pad", svg), foot);
  const begin = () => at(run.started_at);
  const waiting = () => (run.problems || []).filter((problem) => problem.task && problem.since);
  // Room for what waits, even if nothing has happened since.
  const end = () => now(run) + (isDriven(run) ? Math.max(500, (now(run) - begin()) * 0.04) : Math.max(100, (now(run) - begin()) * (waiting().length ? 0.15 : 0.01)));

  function draw() {
    const focused = document.activeElement?.closest?.(".tl .b")?.dataset.item;
    const narrow = innerWidth <= 700, left = narrow ? 40 : 100, width = Math.max(320, el.clientWidth - 26 || 1200);
    const lanes = [...new Set([...run.workers.map((worker) => worker.id), ...run.tasks.flatMap((task) => task.attempts.map((attempt) => attempt.worker))])].sort((a, b) => a - b);
    const laneOf = new Map(lanes.map((id, index) => [id, index])), rowHeight = lanes.length > 10 ? 24 : 34;
    if (!view || follow) view = { a: view ? view.a + (end() - view.b) * (view.a > begin() ? 1 : 0) : narrow ? end() - (end() - begin()) * 0.55 : begin(), b: end() };
    const X = (t) => left + ((t - view.a) / (view.b - view.a)) * (width - left);
    const shownWaits = waiting().slice(0, 6), first = TOP + 26 + (shownWaits.length ? shownWaits.length * 20 + 6 : 0) + 8;
    const height = first + lanes.length * rowHeight + 8;
    const parts = [], hatches = new Map();

    for (const index of lanes.keys()) parts.push(s("line.ln", { x1: 0, x2: width, y1: first + index * rowHeight - 1, y2: first + index * rowHeight - 1 }));
    const span = view.b - view.a, step = STEPS.find((step) => span / step < (narrow ? 5 : 11)) || Math.ceil(span / 8);
    for (let t = begin() + Math.max(0, Math.ceil((view.a - begin()) / step)) * step; t <= view.b; t += step) {
      const x = X(t), besideNow = isDriven(run) && Math.abs(x - X(now(run))) < 38;
      parts.push(s("line.ln", { x1: x, x2: x, y1: TOP - 6, y2: height }), besideNow ? "" : s("text", { x, y: 13, "text-anchor": "middle" }, t === begin() ? "start" : dur(t - begin()).replace(/ 00[sm]$/, "")));
    }
    /** Draws a bar; its label is whole, or its tail, or left out. */
    const bar = ({ y, h: tall, from, to, state, label, name, href, verify, extra = "" }) => {
      const x1 = Math.max(left, X(from)), x2 = Math.min(width, X(to));
      if (x2 < left || x1 > width || x2 < x1) return;
      const w = Math.max(3, x2 - x1 - 1), room = Math.floor((w - 10) / 6.7), tail = label.split(/[-_.]/).pop();
      const text = label.length <= room ? label : tail.length <= room ? tail : "";
      const inner = [s("rect.bar1", { x: x1.toFixed(1), y, width: w.toFixed(1), height: tall, rx: Math.min(4, w / 2) }), text ? s("text.id", { x: x1 + 6, y: y + tall / 2 + 4 }, text) : ""];
      parts.push(href
        ? s(`a.b.s-${state}`, { href, "data-item": name, tabindex: -1, "aria-label": name, class: extra }, inner)
        : s(`g.b.s-${state}`, { role: "img", "aria-label": name, class: extra }, inner));
      const v = verify && Math.max(x1, X(verify));
      if (v && v < x2 - 1) hatches.set(state, `${hatches.get(state) || ""}M${v.toFixed(1)} ${y + 1}H${(x1 + w).toFixed(1)}v${tall - 2}H${v.toFixed(1)}z`);
    };
    for (const gate of run.gates) {
      if (gate.task) continue;
      const to = gate.ended_at ? at(gate.ended_at) : gate.status === "running" ? now(run) : at(gate.started_at), name = `Gate ${gateName(gate)}, ${gate.status}, ${dur(to - at(gate.started_at))}`;
      bar({ y: TOP + 3, h: 18, from: at(gate.started_at), to, state: (GATES[gate.status] || GATES.unknown)[0], label: gate.gate, name, href: gateLink(run, gate) });
    }
    shownWaits.forEach((problem, index) => bar({ y: TOP + 30 + index * 20, h: 16, from: at(problem.since), to: Date.now(), state: kindOf(problem)[0], label: `${problem.task} waits`, name: `${problem.task} waits for you, ${dur(age(problem.since))}`, href: taskLink(run, problem.task), extra: "wait" }));
    for (const level of run.levels) {
      const x = level.commit ? X(at(level.merged_at)) : 0;
      if (x > left && x <= width + 1) parts.push(s("g.s-ok.mg", s("title", `Level ${level.level} merged as ${String(level.commit).slice(0, 10)}`), s("line", { x1: x, x2: x, y1: TOP, y2: height }), s("path.gd.on", { d: `M${x} ${TOP + 4}l7 7-7 7-7-7z` })));
    }
    for (const task of run.tasks) for (const attempt of task.attempts) {
      const to = attempt.ended_at ? at(attempt.ended_at) : attempt.outcome === "running" ? now(run) : at(attempt.started_at), [state, , words] = outcome(attempt, task);
      const phase = attempt.outcome === "running" && run.byWorker.get(attempt.worker);
      const verify = attempt.verification_seconds ? to - attempt.verification_seconds * 1e3 : phase?.phase === "verifying" ? at(phase.phase_since) : 0;
      bar({
        y: first + laneOf.get(attempt.worker) * rowHeight + 2, h: rowHeight - 6, from: at(attempt.started_at), to, state, verify, label: task.id + (attempt.attempt > 1 ? ` #${attempt.attempt}` : ""),
        name: `${task.id}${attempt.attempt > 1 ? ` #${attempt.attempt}` : ""}: attempt ${attempt.attempt} ${words}, ${dur(to - at(attempt.started_at))}, worker ${attempt.worker}`, href: taskLink(run, task.id, "", task.attempts.length > 1 ? attempt.attempt : 0), extra: matches(run, task, query) ? "" : "dim",
      });
    }
    for (const [state, d] of hatches) parts.push(s(`path.v.s-${state}`, { d }));
    const x = X(now(run));
    if (isDriven(run) && x > left && x <= width) parts.push(s("line.nowl", { x1: x, x2: x, y1: TOP - 6, y2: height }), s("text.nowt", { x, y: 13, "text-anchor": "middle" }, "now"));
    parts.push(s("rect.lab", { x: 0, y: TOP - 8, width: left - 4, height }), s("text", { x: 0, y: TOP + 15 }, narrow ? "gate" : "gates, merges"),
      shownWaits.length ? s("text.you", { x: 0, y: TOP + 42 }, narrow ? "you" : "waits for you") : "", lanes.map((id, index) => s("text.w", { x: 0, y: first + index * rowHeight + rowHeight / 2 + 3 }, `w${id}`)));
    svg.replaceChildren(...parts.flat().filter(Boolean));
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    const bars = svg.querySelectorAll("a.b");
    bars[0]?.setAttribute("tabindex", 0);
    if (focused) [...bars].find((bar) => bar.dataset.item === focused)?.focus({ preventScroll: true });
  }
  function zoom(factor, where = 0.5) {
    if (!factor) (follow = true), (view = null);
    else {
      const span = Math.max(50, (view.b - view.a) / factor), middle = view.a + (view.b - view.a) * where;
      view = { a: middle - span * where, b: middle + span * (1 - where) };
      view.a = Math.max(view.a, begin() - span / 2);
      follow = isDriven(run) && view.b >= now(run);
    }
    draw();
  }
  svg.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    const r = svg.getBoundingClientRect();
    zoom(event.deltaY < 0 ? 1.2 : 0.83, (event.clientX - r.x) / r.width);
  }, { passive: false });
  svg.addEventListener("mouseover", (event) => {
    const bar = event.target.closest(".b");
    if (bar && !$("title", bar)) bar.append(s("title", bar.getAttribute("aria-label")));
  });
  svg.addEventListener("dragstart", (event) => event.preventDefault());
  // A bar that is redrawn under a pressed button would lose its click.
  addEventListener("pointerup", () => (pressed = false));
  svg.addEventListener("pointerdown", (event) => {
    pressed = true;
    drag = { x: event.clientX, view: { ...view } };
  });
  svg.addEventListener("pointermove", (event) => {
    if (!drag || !event.buttons || Math.abs(event.clientX - drag.x) < 4) return;
    drag.moved = true;
    const by = ((event.clientX - drag.x) * (drag.view.b - drag.view.a)) / svg.clientWidth;
    view = { a: drag.view.a - by, b: drag.view.b - by };
    follow = isDriven(run) && view.b >= now(run);
    draw();
  });
  svg.addEventListener("click", (event) => drag?.moved && event.preventDefault());
  return {
    el, zoom, mounted: draw,
    update(next, search) {
      run = next;
      query = search;
      foot.replaceChildren(legend(run, "timeline"));
      if (el.isConnected && !pressed) draw();
    },
    tick: () => isDriven(run) && !pressed && draw(),
  };
}
