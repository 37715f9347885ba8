// The parts around the views: header, what needs you, levels, and what happens now.

import { h, icon } from "./dom.js";
import {
  LEVELS, GATES, about, age, at, changing, clocks, countOf, dur, elapsed, fixes, gateLink, gateName, isDriven, isRunning, kindOf, levelLink,
  link, look, ofAttempts, plural, problemsOf, stateOf, taskLink, timeOf, tokens, usd, withNote,
} from "./words.js";

/** A duration that grows while the run is driven. */
export function clock(run, ms, grows = true) {
  if (!grows || !isDriven(run) || clocks.stopped) return h("time", ms < 1e4 ? dur(ms) : ticking(ms));
  return h("time", { "data-from": Math.round(Date.now() - ms) }, ticking(ms));
}
export const ticking = (ms) => dur(Math.floor(ms / 1e3) * 1e3);
export const since = (stamp) => h("time", { "data-from": !clocks.stopped && at(stamp) }, ticking(age(stamp)));

export const pill = ([state, sign, word]) => h(`span.pill.s-${state}`, icon(sign, state), word);
export const command = (text, main) =>
  h("div.cmd", h("code", text), h(`button${main ? ".cp" : ""}`, { type: "button", "data-copy": text, "aria-label": `Copy: ${text}` }, "Copy"));

export const problem = (error) => h("div.sec", h("p", error.message), error.hint ? h("p.mu", error.hint) : "");

/** `connection` is empty or says in words that the page is not up to date. */
export function header({ run, features, connection, lost, actions }) {
  const bar = (...parts) =>
    h("header.top", parts, h("button.ib", { id: "theme", type: "button", "aria-label": "Switch between light and dark", title: "Light or dark" }, "◐"));
  if (!run) return bar(h("nav.crumb", { "aria-label": "Feature" }, h("strong", "mahabharatha")), h("div.facts"));
  const names = features.map((one) => one.feature);
  if (!names.includes(run.feature)) names.push(run.feature);
  const fact = (extra, ...parts) => h(`span.fact${extra}`, parts);
  const busy = run.workers.filter((worker) => worker.task).length;
  const budget = run.budget_usd, spent = run.known_cost_usd || 0, [done, ...counts] = countOf(run.levels, " of ", " done").split(" ");
  return bar(
    h("nav.crumb", { "aria-label": "Feature" },
      h("a.brand", { href: "#/" }, "mahabharatha"), h("span.sep", { "aria-hidden": "true" }, "/"),
      h("select", { id: "pick", "aria-label": "Feature" }, names.map((name) => h("option", { value: name, selected: name === run.feature }, name)))),
    pill(stateOf(run)),
    h("div.facts",
      run.levels.length ? fact("", h("b", done), h("span", ` ${counts.join(" ")}`)) : "",
      run.started_at && fact("", h("b", clock(run, elapsed(run))), run.remaining_seconds && isDriven(run) ? h("span", ` ~${about(run.remaining_seconds * 1e3)} left`) : ""),
      fact("", h("b", usd(run)), budget ? [h("span", ` of $${budget.toFixed(2).replace(".00", "")}`), meter(spent / budget)] : run.cost_usd === null ? h("span", " cost") : ""),
      run.tokens ? fact(".opt", h("b", tokens(run.tokens)), h("span", " tokens")) : "",
      isDriven(run) && run.workers.length ? fact(".opt", h("b", busy), h("span", ` of ${plural(run.workers.length, "worker")} busy`)) : "",
      live(connection || "live", connection && (lost ? "lost" : "late"))),
    actions && isDriven(run) ? h("button.btn", { type: "button", "data-act": "stop" }, "Stop…") : "",
  );
}
const live = (text, how) => h("span.live", { class: how || "", title: how ? "Not connected to the server" : "Updated as events arrive" }, text);
function meter(part) {
  const percent = Math.min(100, Math.round(part * 100));
  return h("span.meter", { role: "meter", "aria-label": "Budget used", "aria-valuenow": percent, "aria-valuemin": 0, "aria-valuemax": 100 },
    h("i", { style: { width: `${percent}%` } }));
}

/** What needs you, or of one task only. The first one is open, the others are one line each. */
export function needs({ run, notes, actions }, only) {
  const all = problemsOf(run).filter((problem) => !only || problem.what === only);
  if (!all.length) return only ? "" : h("p.calm", icon(run.status === "completed" || isDriven(run) ? "ok" : "off"), calm(run));
  const shown = all.slice(0, 4), more = all.length - shown.length;
  return h("section.needs", { "aria-label": "Needs you" },
    shown.map((problem, index) => (index && !only ? line(run, problem) : card(run, problem, notes, actions, only))),
    more ? h("p.calm", `and ${more} more: `, h("a.under", { href: link(run.feature, "tasks") }, "all tasks")) : "");
}
function calm(run) {
  if (run.status === "completed") return "Completed. Nothing needs you.";
  if (run.status === "designed") return ["Designed, not run yet. ", command(`mahabharatha run ${run.feature}`)];
  if (run.status === "empty") return ["Nothing is planned yet. ", command(`mahabharatha plan ${run.feature}`)];
  if (run.status === "planned") return ["Planned, not designed yet. ", command(`mahabharatha design ${run.feature}`)];
  if (run.started_at && !isDriven(run) && run.status !== "undone") return ["No process works on it. ", command(`mahabharatha run ${run.feature}`)];
  return "Nothing needs you.";
}
const keyFor = (problem) => `${problem.kind} ${problem.what}`;
export const noteKey = (run, problem) => `${run.feature} ${problem.what}`;

function held(problem) {
  const ids = problem.holds;
  if (!ids.length) return "";
  if (ids.length > 3) return h("span", h("b", plural(ids.length, "task")), " wait for it");
  return h("span", ids.map((id, n) => [n ? ", " : "", h("b.m", id)]), ids.length > 1 ? " wait for it" : " waits for it");
}
function line(run, problem) {
  const [state, word] = kindOf(problem);
  const href = problem.task ? taskLink(run, problem.task) : "";
  return h(`article.card.need.one.s-${state}`, { "data-key": keyFor(problem) },
    h("h3", icon(state), h("span.who", word), h("b.m", problem.what), h("q", problem.cause), held(problem),
      href ? h("a.btn", { href }, "Open") : problem.commands[0] ? h("button.btn", { type: "button", "data-copy": problem.commands[0] }, "Copy the command") : ""));
}
/** Says how many of a level's gates passed last. */
function gatesOf(run, level) {
  const last = [...new Map(run.gates.filter((gate) => gate.at === String(level) && !gate.task).map((gate) => [gate.gate, gate])).values()];
  const passed = last.filter((gate) => gate.status === "passed").length;
  return !last.length ? "" : passed === last.length ? "Its gates passed. " : `${passed} of ${last.length} gates passed. `;
}

function card(run, problem, notes, actions, only) {
  const [state, word] = kindOf(problem), task = run.byId.get(problem.task), note = notes.get(noteKey(run, problem)) || "";
  const takesNote = problem.commands.some((command) => /"…"|^mahabharatha retry /.test(command)) && task;
  const isOutput = !["ask", "warn"].includes(state) && /\n/.test(problem.text);
  // The first paragraph of a report may be its headline.
  const flat = (text) => text.replace(/\s+/g, " ").trim(), [first, ...rest] = problem.text.trim().split(/\n\s*\n/);
  const text = flat(first) === flat(problem.cause) ? rest.join("\n\n") : problem.text;
  const red = problem.kind === "gate" && run.gates.findLast((gate) => gate.at === String(problem.level) && gate.status === "failed");
  const id = `note-${problem.what}`;
  return h(`article.card.need.s-${state}`, { "data-key": keyFor(problem) },
    h("h3", icon(state), h("span.who", only && problem.kind === "question" ? "The agent asks" : word),
      only ? "" : task ? h("a", { href: taskLink(run, task.id) }, h("b.m", task.id), " ", h("b", task.title)) : h("b", problem.what),
      h("span", task ? `level ${task.level}, attempt ${ofAttempts(run, task.attempt)}` : "", problem.since ? [task ? ", " : "", since(problem.since), " ago"] : ""),
      held(problem)),
    h("div", h("blockquote", problem.kind === "approval" ? [gatesOf(run, problem.level), only ? "It is merged when you approve it." : [h("a.under", { href: levelLink(run, problem.level) }, "Look at the diff"), ": it is merged when you approve it."]] : problem.cause !== problem.text && isOutput ? [problem.cause, text ? h("pre", { tabindex: "0" }, text) : ""] : problem.text),
      task?.needs?.length ? h("ul.wants", task.needs.map((need) => h("li", h("code", need.path), need.why ? h("span.mu", ` ${need.why}`) : ""))) : ""),
    h("div",
      takesNote ? [h("label.vh", { for: id }, `Note for the next attempt of ${task.id}`),
        h("textarea", { id, "data-note": noteKey(run, problem), rows: 1, placeholder: task.question ? "Your answer goes into the next attempt’s prompt" : "A hint for the next attempt (optional)" }, note)] : "",
      problem.commands.map((text, index) => command(withNote(text, note), !index && !actions)),
      h("div.acts", actions ? buttons(run, problem, task) : "",
        task && !only ? h("a.btn", { href: taskLink(run, task.id, "diff") }, "See the diff") : "",
        red ? h("a.btn", { href: gateLink(run, red) }, "See its log") : "",
        actions || !problem.commands.length ? "" : h("span.mu.ro", "Read-only: paste the command into a terminal."))));
}
function buttons(run, problem, task) {
  const act = (action, label, extra = {}) => h("button.btn", { type: "button", "data-act": action, class: extra.main ? "pri" : "", "data-task": problem.task, "data-note-of": noteKey(run, problem), ...extra.data }, label);
  if (problem.kind === "approval") {
    const tree = run.levels.find((level) => level.level === problem.level)?.awaits_approval?.tree;
    return tree ? act("approve", `Approve level ${problem.level}…`, { main: true, data: { "data-tree": tree } }) : "";
  }
  if (!task) return "";
  const needs = task.needs || [], grant = needs.length ? act("grant", `Grant ${needs.length > 1 ? `${needs.length} files` : needs[0].path}…`, { main: true }) : "";
  const retry = problem.kind === "person" ? "" : act("retry", task.question ? "Answer and retry" : "Retry", { main: !grant });
  return [grant, retry, act("skip", "Skip…")];
}

/** One cell for each task, in a fixed order of states; only their share if there are many. */
export function rail(run) {
  if (!run.levels.length) return "";
  const many = Math.max(...run.levels.map((level) => level.total)) > 12, few = run.levels.length <= 6;
  const order = ["ok", "run", "warn", "ask", "bad", "off"];
  return h("section.card.rail", { "aria-label": "Levels" }, run.levels.map((level) => {
    const states = run.byLevel.get(level.level).map((task) => look(run, task)[0]);
    const sorted = order.flatMap((state) => states.filter((one) => one === state));
    const cells = many
      ? order.filter((state) => states.includes(state)).map((state) => h(`i.s-${state}`, { style: { "flex-grow": sorted.filter((one) => one === state).length } }))
      : sorted.map((state) => h(`i.s-${state}`));
    const latest = new Map(run.gates.filter((gate) => gate.at === String(level.level) && !gate.task).map((gate) => [gate.gate, gate]));
    const gates = [...latest.values()], state = LEVELS[level.status] || "off", word = level.awaits_approval ? "waits for approval" : level.status;
    return h(`div.lv.s-${level.awaits_approval ? "ask" : state}`,
      h("h3", h("b", `Level ${level.level}`), h(`span.st${few ? "" : ".sh"}`, word), few ? "" : icon(state), h("span.n", { title: countOf([level], " of ", " done") }, few ? countOf([level], " of ") : countOf([level]))),
      h("div.cells", { "aria-hidden": "true" }, cells),
      h("div.gates", { class: gates.some((gate) => /running|failed/.test(gate.status)) ? "act" : "" }, gates.map((gate) => {
        const [state, sign] = GATES[gate.status] || GATES.unknown;
        return h(`a.s-${state}`, { href: gateLink(run, gate), title: `Log of gate ${gateName(gate)}: ${gate.status}` }, icon(sign, state), gate.gate, gate.status === "running" ? [" ", since(gate.started_at)] : h("span.vh", `, ${gate.status}`));
      })));
  }));
}

/** What workers, sessions and gates do now. */
export function nowPanel(run) {
  if (!isDriven(run) && !run.workers.some((worker) => worker.status === "running")) return "";
  const gate = run.running_gate, busy = run.workers.filter((worker) => run.byId.has(worker.task));
  const sessions = run.tasks.filter((task) => task.session && isRunning(task));
  const log = gate && run.gates.findLast((one) => one.status === "running");
  const idle = run.workers.length - busy.length;
  const row = (who, [state, sign], name, extra, time, doing) =>
    [h("span.w", who), h("span", icon(sign, state), " ", h("b", name), extra ? h("span.mu", ` ${extra}`) : ""), h("span.mu", time), doing ? h("span.d", doing) : ""];
  const ofTask = (who, task, doing) => {
    const [state, sign, word] = look(run, task), n = task.attempt;
    return h("li", { "data-key": `${who} ${task.id}` }, h("a", { href: taskLink(run, task.id, "output") }, row(who, [state, sign], task.id, [n > 1 ? `#${n}` : "", fixes(run, task)].filter(Boolean).join(", "), clock(run, timeOf(run, task), changing(task)), doing || word)));
  };
  return h("section.card.now", { "aria-label": "Now", class: busy.length > 8 ? "many" : "" },
    h("h2", "Now ", h("span", `${plural(busy.length + sessions.length, "agent")}${gate ? ", 1 gate" : ""}`)),
    h("ul",
      gate ? h("li", { "data-key": "gate" }, h("a", { href: log ? gateLink(run, log) : false }, row(/^\d+$/.test(gate.at) ? `L${gate.at}` : gate.at, ["run", "ver"], gate.gate, "", since(gate.started_at), gate.last_line || gate.command))) : "",
      busy.map((worker) => ofTask(`w${worker.id}`, run.byId.get(worker.task), worker.phase === "verifying" ? `verification: ${run.byId.get(worker.task).verification.command}` : worker.doing)),
      sessions.map((task) => ofTask("you", task, "a session works on it")),
      busy.length > 8 ? h("li.more", h("div", h("span.w"), h("a.under", { href: link(run.feature, "tasks") }, `${busy.length - 6} more agents`))) : "",
      idle > 0 ? h("li", h("div", h("span.w", `${idle}×`), h("span.mu.idle", gate?.at === "base" ? "waits for the gates on the base branch" : "idle: no task is ready"))) : ""));
}
