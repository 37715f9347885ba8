// The page of a project: routes, live updates, actions and keys. The views are in the modules beside it.

import { $, $$, api, get, h, morph, say } from "./dom.js";
import { ROWS, TABS, clocks, dur, gateFile, home, indexed, isDriven, isPartial, kindOf, link, problemsOf, taskLink, totalOf } from "./words.js";
import { header, needs, nowPanel, problem, rail, ticking } from "./parts.js";

/** Loads a module when it is needed: the first paint needs none of them. Returns nothing until it is there. */
const modules = {};
function module(name) {
  if (!(name in modules)) {
    modules[name] = null;
    import(`./${name}.js`).then((loaded) => ((modules[name] = loaded), draw()), () => delete modules[name]);
  }
  return modules[name];
}
const using = (name, use) => import(`./${name}.js`).then(use);

const VIEWS = ["graph", "timeline", "tasks", "report"];
/** Milliseconds between two looks at the list of features while it is shown. */
const LIST_INTERVAL = 3000;
const first = JSON.parse($("#first")?.textContent || "{}");
const state = {
  features: listOf(first.features), run: null, actions: first.actions === true, notes: new Map(), queries: new Map(),
  connection: "", lost: false, updated: Date.now(), error: null, loaded: null, wanted: "", limit: ROWS, order: null,
};
/** The part of the page that draws itself: graph, timeline or output. */
let stage = { key: "", view: null };
/** The last graph: its layout is worth keeping. */
let kept = stage;
let source = null, route = {}, lastTask = "", lastView = "", shown = "", shape = 0;

function listOf(answer) {
  return Array.isArray(answer) ? answer : answer?.features || [];
}

/* ---------- routes ---------- */

function readRoute() {
  const [path, query] = location.hash.replace(/^#\/?/, "").split("?");
  const [feature, kind, task, tab] = path.split("/").map((part) => {
    try { return decodeURIComponent(part); } catch { return part; }
  });
  if (!feature) return {};
  const attempt = Number(new URLSearchParams(query).get("attempt")) || 0;
  if (kind === "task") return { feature, task, tab: TABS.includes(tab) ? tab : "overview", attempt };
  if (kind === "level" || kind === "gate") return { feature, [kind]: task };
  return { feature, view: VIEWS.includes(kind) ? kind : "graph" };
}

async function navigate(isFirst) {
  const before = route;
  route = readRoute();
  shown = location.hash;
  state.limit = ROWS;
  state.order = null;
  if (route.task) lastTask = route.task;
  if (route.view || !route.feature) lastView = route.view ? location.hash : "";
  if (route.feature !== state.run?.feature) await openFeature();
  load();
  render();
  if (isFirst) return;
  scrollTo(0, 0);
  // Back from a task: to the place where it was opened.
  const back = before.task && route.view && $$("[data-item]").find((item) => item.dataset.item === lastTask);
  (back || $("#main")).focus({ preventScroll: !back });
}

async function openFeature() {
  source?.close();
  source = null;
  clocks.stopped = 0;
  Object.assign(state, { run: null, error: null, connection: "", lost: false, loaded: null, wanted: "" });
  closeStage();
  $("#app").replaceChildren();
  if (!route.feature || first.status?.feature !== route.feature) render();
  if (!route.feature) {
    state.features = listOf(await get(api("features")).catch(() => state.features));
    return;
  }
  const feature = route.feature;
  try {
    const status = first.status?.feature === feature ? first.status : await get(api("features", feature, "status"));
    first.status = null;
    if (route.feature === feature) take(status);
  } catch (error) {
    state.error = error;
  }
  if (route.feature === feature && !state.error) follow(feature);
}

/* ---------- live updates ---------- */

function follow(feature) {
  source = new EventSource(`${api("features", feature)}/events`);
  const mine = source;
  source.addEventListener("open", () => connected(""));
  source.addEventListener("status", (event) => {
    if (mine !== source) return;
    state.error = null;
    take(JSON.parse(event.data));
    connected("");
    draw();
  });
  source.addEventListener("problem", (event) => mine === source && (state.error = JSON.parse(event.data), draw()));
  source.addEventListener("error", () => mine === source && connected(source.readyState === EventSource.CLOSED ? "connection lost" : "reconnecting"));
}

function connected(trouble) {
  const before = state.connection;
  // What is shown was up to date until the connection was lost.
  if (!trouble || !before) state.updated = Date.now();
  state.lost = trouble === "connection lost";
  clocks.stopped = trouble ? state.updated : 0;
  state.connection = trouble ? `${trouble}, last update ${dur(Math.round((Date.now() - state.updated) / 1e3) * 1e3)} ago` : "";
  if (Boolean(before) !== Boolean(trouble)) say(trouble ? "Connection to the server lost." : "Connected again.");
  if (before !== state.connection) draw();
}

/** Takes a status; its tasks may be only those that have changed. */
function take(status) {
  const before = state.run?.feature === status.feature ? state.run : null;
  const changed = new Map((status.tasks || []).map((task) => [task.id, task]));
  if (before) {
    const known = before.tasks.map((task) => changed.get(task.id) || task);
    const added = [...changed.values()].filter((task) => !before.byId.has(task.id));
    status.tasks = [...known, ...added];
    if (added.length) shape++;
    announce(before, status);
  }
  state.run = indexed(status);
  document.title = title();
  if (before && totalOf(status) !== status.tasks.length) get(api("features", status.feature, "status")).then((whole) => ((state.run = null), shape++, take(whole), draw())).catch(() => {});
  const same = (id) => !changed.has(id) || JSON.stringify(changed.get(id)) === JSON.stringify(before.byId.get(id));
  if (before && (before.status !== status.status || !same(route.task))) load(true);
}

function title() {
  const { run } = state, names = [route.task, run?.feature, "mahabharatha"].filter(Boolean).join(" · ");
  return run && problemsOf(run).length ? `? ${names}` : names;
}

/** Says problems, merges and the end to screen readers, and nothing else. */
function announce(before, after) {
  const key = (problem) => `${problem.kind} ${problem.what} ${problem.cause}`, known = new Set((before.problems || []).map(key)), said = [];
  for (const one of after.problems || []) if (!known.has(key(one))) said.push(`${kindOf(one)[1]}: ${one.what}. ${one.cause}`);
  for (const level of after.levels) if (level.merged_at && !before.levels.find((one) => one.level === level.level)?.merged_at) said.push(`Level ${level.level} is merged.`);
  if (before.status !== after.status && after.ended_at) said.push(`${after.feature} is ${after.status}.`);
  if (said.length) say(said.join(" "));
}

/** Loads what the route shows beyond the status. */
function load(again) {
  const { run } = state;
  const url = !run ? "" : route.level ? `${api("features", run.feature)}/diff?level=${encodeURIComponent(route.level)}` : route.view === "report" ? `${api("features", run.feature)}/report` : !route.task || route.tab === "output" || !run.byId.has(route.task) ? ""
    : route.tab === "log" ? `${api("features", run.feature)}/log?output=false&task=${encodeURIComponent(route.task)}`
    : `${api("features", run.feature, "tasks", route.task)}${route.tab === "diff" ? "/diff" : ""}${route.attempt ? `?attempt=${route.attempt}` : ""}`;
  if (url === state.wanted && !again) return;
  if (url !== state.wanted) state.loaded = null;
  state.wanted = url;
  if (!url) return;
  get(url).then((body) => body, (error) => ({ error })).then((body) => {
    if (state.wanted !== url) return;
    const open = new Set((state.loaded?.files || []).filter((file) => file.open).map((file) => file.path));
    for (const file of body.files || []) file.open = open.has(file.path);
    state.loaded = body;
    render();
  });
}

/* ---------- drawing ---------- */

let due = 0;
function draw() {
  if (!due) due = requestAnimationFrame(() => ((due = 0), render()));
}

function render() {
  document.title = title();
  const app = $("#app"), tree = h("div", { id: "app" }, header(state), h("main.wrap", { id: "main", tabindex: "-1" }, banner(), ...content()));
  morph(app, tree);
  mount();
}

function banner() {
  if (!state.connection) return "";
  return h("p.card.banner.s-warn", h("b", state.lost ? "Connection lost." : "Reconnecting."), ` This page shows the state of ${dur(Math.round((Date.now() - state.updated) / 1e3) * 1e3)} ago. A server that was started again has a new address: open the one that `, h("code", "mahabharatha serve"), " prints.");
}

const wait = () => h("p.calm", "Loading…");
function content() {
  const { run } = state;
  if (state.error) return [h("div.card", problem(state.error), h("p.sec", h("a.under", { href: "#/" }, "All features")))];
  if (!route.feature) return [module("tables")?.featureList(state.features) || wait()];
  if (!run) return [wait()];
  if (route.task) {
    const task = run.byId.get(route.task);
    if (!task && isPartial(run)) return [wait()];
    if (!task) return [h("div.card", problem({ message: `There is no task ${route.task} in ${run.feature}.` }), h("p.sec", h("a.under", { href: link(run.feature, "tasks") }, "All tasks")))];
    return [module("task")?.taskPage(state, task, route.tab, route.attempt) || wait()];
  }
  const views = h("nav.tabs", { "aria-label": "View" }, VIEWS.map((name) => h("a", { href: link(run.feature, name === "graph" ? "" : name), "aria-current": name === route.view ? "page" : false }, name[0].toUpperCase() + name.slice(1))));
  if (route.level) return [h("div.bar", views), module("task")?.levelPage(state, route.level) || wait()];
  if (route.gate) {
    const gate = run.gates.find((one) => gateFile(one) === route.gate);
    if (!gate) return [h("div.card", problem({ message: "There is no log of this run of a gate.", hint: "Logs are removed after logs.keep_days." }))];
    return [h("div.bar", views), module("task")?.gatePage(run, gate) || wait()];
  }
  const query = state.queries.get(run.feature) || "", panel = isPartial(run) ? "" : nowPanel(run);
  const wide = totalOf(run) > 60 || route.view === "timeline" || route.view === "report" || !panel;
  return [
    h("h1.vh", run.feature), needs(state), rail(run),
    h("div.bar", views,
      route.view === "report" ? "" : h("input.find", { id: "find", "data-key": "find", type: "search", placeholder: "Filter tasks  /", "aria-label": "Filter tasks", value: query })),
    h("div.split", { class: wide ? "wide" : "" }, h("div", body(run, query)), panel),
  ];
}

function body(run, query) {
  if (isPartial(run)) return wait();
  if (!run.tasks.length) return h("p.card.sec.mu", run.problems?.some((one) => one.kind === "design") ? "The task graph has problems: see above." : "There is no task graph yet.");
  const tables = ["report", "tasks"].includes(route.view) && module("tables");
  if (route.view === "report") return state.loaded?.error ? h("div.card", problem(state.loaded.error)) : tables ? tables.report(run, state.loaded?.text) : wait();
  if (route.view === "tasks") {
    if (!tables) return wait();
    const inside = $(".list:hover, .list:focus-within");
    const { element, rank } = tables.taskTable(run, query, state.limit, inside ? state.order : null);
    state.order = rank;
    return element;
  }
  const drawn = module(route.view);
  if (!drawn) return wait();
  if (route.view === "graph") return innerWidth <= 700 ? drawn.chips(run, query) : h("div", { "data-own": `graph ${run.feature} ${shape}` });
  if (!run.started_at) return h("p.card.sec.mu", "Nothing has run yet.");
  return h("div", { "data-own": `timeline ${run.feature} ${shape}` });
}

function closeStage() {
  stage.view?.close?.();
  stage = { key: "", view: null };
}

/** Puts the part that draws itself into its place, and lets it draw. */
function mount() {
  const place = $("[data-own]"), key = place?.dataset.own || "", { run } = state;
  if (key !== stage.key) {
    closeStage();
    if (!key) return;
    if (key === kept.key) stage = kept;
    else stage = { key, view: route.view ? modules[route.view][route.view](run) : modules.task.outputOf(run, route) };
    if (route.view === "graph") kept = stage;
  }
  if (!stage.view) return;
  const isNew = place !== stage.view.el;
  if (isNew) {
    stage.view.el.dataset.own = key;
    place.replaceWith(stage.view.el);
  }
  stage.view.update(run, state.queries.get(run.feature) || "");
  if (isNew) stage.view.mounted();
}

setInterval(() => {
  if (document.hidden) return;
  for (const time of $$("[data-from]")) {
    const text = ticking(Date.now() - time.dataset.from);
    if (time.textContent !== text) time.textContent = text;
  }
  if (state.connection) connected(state.lost ? "connection lost" : "reconnecting");
  else if (state.run && isDriven(state.run)) stage.view?.tick?.();
}, 1000);

/* ---------- input ---------- */

addEventListener("click", (event) => {
  const on = (selector) => event.target.closest?.(selector);
  const row = on("[data-href]"), button = on("button");
  if (row && !on("a, button") && !String(getSelection())) location.hash = row.dataset.href;
  if (!button) return;
  const { dataset } = button;
  if (button.id === "theme") setTheme(isDark() ? "light" : "dark");
  else if (dataset.copy) using("actions", ({ copy }) => copy(button));
  else if (dataset.act) using("actions", ({ act }) => act(button, state));
  else if (dataset.zoom) stage.view?.zoom?.(Number(dataset.zoom));
  else if ("more" in dataset) ((state.limit += ROWS), render());
  else if ("reload" in dataset) load(true);
  else if (dataset.unfold) using("task", ({ unfold }) => unfold(state, Number(dataset.unfold)).then(render, ({ message }) => using("actions", ({ toast }) => toast(message, true))));
});

function filter(text) {
  state.queries.set(state.run.feature, text);
  state.limit = ROWS;
  if ($("#find")) $("#find").value = text;
  draw();
}

addEventListener("input", ({ target }) => {
  if (target.dataset.note) {
    state.notes.set(target.dataset.note, target.value);
    draw();
  } else if (target.id === "find") {
    filter(target.value);
  }
});
addEventListener("change", ({ target }) => {
  if (target.id === "pick") location.hash = home(state.features.find((one) => one.feature === target.value) || { feature: target.value });
});

addEventListener("keydown", (event) => {
  // An earlier key may have changed the address; the browser reports that only later.
  if (location.hash !== shown) navigate();
  const { target, key } = event, { run } = state;
  if (event.metaKey || event.ctrlKey || event.altKey || $("#dialog").open) return;
  if (/INPUT|TEXTAREA|SELECT/.test(target.tagName)) {
    const isFind = target.id === "find";
    if (key === "Escape" && isFind && target.value) (event.preventDefault(), filter(""));
    else if (key === "Escape" || (key === "Enter" && isFind)) target.blur();
    return;
  }
  const go = (href) => (location.hash = href), { task, tab } = route;
  if (key === "?") using("actions", ({ help }) => help());
  else if (key === "j" || key === "k") step(key === "j" ? 1 : -1);
  else if (key === "Escape" && route.view && state.queries.get(route.feature)) filter("");
  else if (key === "Escape" && route.feature) go(route.view ? "#/" : lastView || link(route.feature));
  else if (!run) return;
  else if (key === "/") (event.preventDefault(), $("#find")?.focus());
  else if (/^[1-4]$/.test(key)) go(task ? taskLink(run, task, TABS[key - 1], route.attempt) : link(run.feature, key === "1" ? "" : VIEWS[key - 1]));
  else if (key === "n") nextProblem(go);
  else if (key === "r") (event.preventDefault(), $("[data-note]")?.focus());
  else if (key === "y") $("main [data-copy]")?.click();
  else if (task && (key === "[" || key === "]")) {
    const all = run.byId.get(task)?.attempts.map((one) => one.attempt) || [], at = all.indexOf(route.attempt || all.at(-1)) + (key === "]" ? 1 : -1);
    if (all[at]) go(taskLink(run, task, tab, all[at]));
  } else if ("+-=0".includes(key)) stage.view?.zoom?.({ "+": 1.4, "=": 1.4, "-": 0.714, 0: 0 }[key]);
});

/** Moves to the next or previous item of the view; on the page of a task, to that task. */
function step(by) {
  const links = route.task ? $$("[data-side]") : $$("[data-item]");
  const at = links.findIndex((one) => (route.task ? one.hasAttribute("aria-current") : one === document.activeElement)), next = links[at < 0 ? 0 : at + by];
  if (!next) return;
  if (route.task) location.hash = next.getAttribute("href");
  else {
    next.focus();
    next.scrollIntoView({ block: "nearest" });
  }
}

function nextProblem(go) {
  const ids = problemsOf(state.run).map((one) => one.task).filter(Boolean);
  if (ids.length) go(taskLink(state.run, ids[(ids.indexOf(route.task) + 1) % ids.length]));
}

/* ---------- start ---------- */

const root = document.documentElement;
const isDark = () => (root.dataset.theme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
function setTheme(theme) {
  root.dataset.theme = theme;
  try { localStorage.theme = theme; } catch { /* It is forgotten. */ }
}
try { if (localStorage.theme) root.dataset.theme = localStorage.theme === "dark" ? "dark" : "light"; } catch { /* The system's theme. */ }

$(".skip").addEventListener("click", (event) => (event.preventDefault(), $("#main").focus()));
addEventListener("hashchange", () => location.hash !== shown && navigate());
let resizing;
addEventListener("resize", () => {
  clearTimeout(resizing);
  resizing = setTimeout(() => (render(), stage.view?.mounted && !stage.key.startsWith("output") && stage.view.mounted()), 120);
});
async function refreshList() {
  const features = await get(api("features")).catch(() => null);
  if (features) ((state.features = listOf(features)), draw());
}
addEventListener("focus", refreshList);
setInterval(() => route.feature || document.hidden || refreshList(), LIST_INTERVAL);
if (!location.hash && first.status) history.replaceState(null, "", home(first.status));
navigate(true);
// The rest, so that it is there when the server is not.
setTimeout(() => ["actions", "graph", "timeline", "tables", "task"].forEach(module), 300);
