// The page of a task: overview, live output, diff and log of an attempt.

import { api, get, h, icon } from "./dom.js";
import { GATES, RANK, TABS, at, changing, dur, fixes, gateFile, gateName, isRunning, look, ofAttempts, outcome, plural, taskLink, tokens, usd, worked } from "./words.js";
import { clock, command, needs, pill, problem, since } from "./parts.js";
import { attemptRow } from "./tables.js";

const FOLD_LINES = 400;
const MAX_OUTPUT_LINES = 2000;
const MAX_SIDE = 60;

const GROUPS = [["Needs you", (rank) => rank <= 1], ["Now", (rank) => rank === 2], ["Waiting", (rank) => rank === 3 || rank === 4], ["Done", (rank) => rank === 5], ["Skipped", (rank) => rank === 6]];

function side(run, task, tab) {
  const ranked = run.tasks.map((one) => [one, look(run, one)]);
  return h("nav.card.side", { "aria-label": "Tasks" }, GROUPS.map(([name, is]) => {
    const tasks = ranked.filter(([, state]) => is(RANK[state[2]]));
    if (!tasks.length) return "";
    const from = Math.max(0, Math.min(tasks.length - MAX_SIDE, tasks.findIndex(([one]) => one === task) - MAX_SIDE / 2));
    return [h("h2", `${name} ${tasks.length}`), tasks.slice(from, from + MAX_SIDE).map(([one, [state, sign, word]]) =>
      h("a", { href: taskLink(run, one.id, tab), "aria-current": one === task ? "page" : false, title: one.title, "data-key": one.id, "data-side": true }, icon(sign, state), h("span.m", one.id), h("span.vh", `, ${word}`)))];
  }));
}

/** `state.loaded` has what the server sent for this tab, or its error. */
export function taskPage(state, task, tab, attempt) {
  const { run, loaded } = state, shown = task.attempts.find((one) => one.attempt === attempt) || task.attempts.at(-1);
  const fact = (name, ...value) => h("div", h("dt", name), h("dd", value));
  const running = shown?.outcome === "running";
  return h("div.task", side(run, task, tab), h("div.body",
    h("div.hd", h("h1", h("span.m", task.id), " ", task.title, " ", pill(look(run, task))),
      h("dl", fact("Level", task.level), fact("Attempts", ofAttempts(run, task.attempts.length), isRunning(task) && fixes(run, task) ? h("span.mu", ` ${fixes(run, task)}`) : ""),
        fact("Worked", task.attempts.length ? clock(run, worked(run, task), changing(task)) : "not yet", task.estimate_minutes ? h("span.mu", ` est. ${task.estimate_minutes}m`) : ""),
        task.attempts.length ? fact("Cost", usd(task)) : "", task.tokens ? fact("Tokens", tokens(task.tokens)) : "",
        task.commit ? fact("Commit", h("code", String(task.commit).slice(0, 10))) : "")),
    needs(state, task.id),
    h("div.bar", h("nav.tabs", { "aria-label": "Task" }, TABS.map((name) => h("a", { href: taskLink(run, task.id, name, attempt), "aria-current": name === tab ? "page" : false }, name[0].toUpperCase() + name.slice(1)))),
      task.attempts.length > 1 && tab !== "log" ? h("nav.tabs.attempts", { "aria-label": "Attempt" }, task.attempts.map((one) => {
        const [state, sign, word] = outcome(one, task);
        return h("a", { href: taskLink(run, task.id, tab, one.attempt), "aria-current": one === shown ? "page" : false }, icon(sign, state), ` Attempt ${one.attempt}`, h("span.vh", `, ${word}`));
      })) : "",
      tab === "diff" && running ? h("button.btn", { type: "button", "data-reload": true }, "Refresh") : ""),
    tab === "output" ? h("div", { "data-own": `output ${task.id} ${shown?.attempt}` }) : h("div.card.flat", content(run, task, tab, loaded, shown))));
}

function content(run, task, tab, loaded, shown) {
  if (tab === "overview") return [loaded?.error ? problem(loaded.error) : "", overview(run, task, loaded)];
  if (loaded?.error) return problem(loaded.error);
  if (!loaded) return h("p.sec.mu", "Loading…");
  return tab === "diff" ? diff(loaded, shown, `mahabharatha diff -f ${run.feature} ${task.id}`) : log(loaded, `mahabharatha logs ${run.feature} --task ${task.id}`);
}

/** What a level changes, to be looked at before it is approved. */
export function levelPage(state, level) {
  const { run, loaded } = state, { status, awaits_approval } = run.levels.find((one) => String(one.level) === level) || {};
  return h("div.body", h("div.hd", h("h1", `Level ${level} `, h("span.mu", awaits_approval ? "waits for approval" : status))), needs(state, `level ${level}`),
    h("div.card.flat", !loaded ? h("p.sec.mu", "Loading…") : loaded.error ? problem(loaded.error) : diff(loaded, true, `mahabharatha diff -f ${run.feature} --level ${level}`)));
}

/** One run of a gate: its facts, and what it prints. */
export function gatePage(run, gate) {
  const fact = (name, ...value) => h("div", h("dt", name), h("dd", value)), [state, sign] = GATES[gate.status] || GATES.unknown;
  return h("div.body",
    h("div.hd", h("h1", `Gate ${gateName(gate)} `, pill([state, sign, gate.status])),
      h("dl", fact("Command", h("code", gate.command)), fact("Took", gate.ended_at ? dur(at(gate.ended_at) - at(gate.started_at)) : gate.status === "running" ? since(gate.started_at) : "unknown"))),
    h("div", { "data-own": `output gate ${gateFile(gate)}` }));
}

function overview(run, task, loaded) {
  const ids = (list) => (list.length ? list.map((id, n) => [n ? ", " : "", h("a.m", { href: taskLink(run, id) }, h("b", id))]) : h("span.mu", "none"));
  const after = run.tasks.filter((one) => one.dependencies.includes(task.id)).map((one) => one.id);
  const files = [["creates", task.files.create], ["changes", task.files.modify], ["may also change", task.granted || []], ["reads", task.files.read]];
  const spec = loaded?.spec || {}, said = [["Description", spec.description], ["Context", spec.context], ["Action", spec.action], ["Done when", spec.done], ["Interface", spec.interface], ["Security", spec.security]];
  const decisions = loaded?.decisions || [];
  return [
    h("div.two", h("section.sec", h("h2", "Files"), files.filter(([, list]) => list.length).map(([word, list]) => h("p", h("span.mu", `${word} `), list.map((path, n) => [n ? ", " : "", h("code", path)])))),
      h("section.sec", h("h2", "Order"), h("p", "Needs ", ids(task.dependencies)), h("p", "Needed by ", ids(after)))),
    said.filter(([, text]) => text).map(([name, text]) => h("section.sec", h("h2", name), h("p.pre", text))),
    task.acceptance_criteria?.length ? h("section.sec", h("h2", "Acceptance criteria"), h("ul.dots", task.acceptance_criteria.map((text) => h("li", text)))) : "",
    h("section.sec", h("h2", "Attempts ", h("span", ofAttempts(run, task.attempts.length))),
      task.attempts.length ? h("ul", task.attempts.map((attempt) => attemptRow(run, task, attempt))) : h("p.mu", task.dependencies.length ? "Not started. It waits for the tasks that it needs." : "Not started."),
      task.reason && !task.question && task.status !== "blocked" ? h("p.mu", task.reason) : ""),
    h("section.sec", h("h2", "Verification"), command(task.verification.command), loaded?.verification?.output ? h("pre.box", { tabindex: "0", "aria-label": "Output of the verification" }, loaded.verification.output) : ""),
    decisions.length ? h("section.sec", h("h2", "Decisions"), h("ul.dots", decisions.map((text) => h("li", text)))) : "",
    loaded?.prompt ? h("details.sec", { "data-key": "prompt" }, h("summary", h("h2", "Prompt ", h("span", `${plural(loaded.prompt.split("\n").length, "line")}`))), h("pre.box.tall", { tabindex: "0", "aria-label": "Prompt" }, loaded.prompt)) : "",
  ];
}

function diff({ files, notes }, shown, whole) {
  const list = files.map((file, index) => {
    const lines = file.hunks.reduce((sum, hunk) => sum + hunk.lines.length, 0), folded = file.folded || (lines > FOLD_LINES && !file.open);
    const head = [h("span.m.path", { title: file.path }, file.path), file.status === "modified" ? "" : h("span.own.s-off", file.status === "added" ? "new" : file.status),
      h(`span.own.s-${file.owned ? "ok" : "bad"}`, file.owned ? "owned" : "not owned"), h("span.ds", file.binary ? "binary" : [h("b", `+${file.added}`), " ", h("i", `−${file.removed}`)])];
    const key = `file ${index} ${file.path}`;
    if (file.binary || (!lines && !file.folded)) return h("section.file", { "aria-label": file.path, "data-key": key }, h("header", head), h("p.sec.mu", file.binary ? "A binary file." : "No changed lines."));
    if (folded) {
      return h("section.file", { "aria-label": file.path, "data-key": key }, h("header", head),
        h("p.sec", h("button.btn", { type: "button", "data-unfold": index }, `Show ${plural(file.folded ? file.added + file.removed : lines, "line")}`)));
    }
    return h("section.file", { class: file.status === "added" ? "new" : "", "aria-label": file.path, "data-key": key }, h("header", head), code(file), file.left_out ? h("p.sec", `${plural(file.left_out, "more line")} not shown: `, h("code", whole)) : "");
  });
  return [(notes || []).map((note) => h("p.sec.mu", note)), list.length ? list : h("p.sec.mu", shown ? "Nothing is changed." : "No attempt was made yet.")];
}
const SIGN = { "+": ["a", "+"], "-": ["d", "−"], " ": ["", ""] };
/** Loads a file that is folded, and shows it. */
export async function unfold(state, index) {
  const { wanted, loaded: { files } } = state, { path, folded } = files[index];
  let file = files[index];
  if (folded) {
    const answer = await get(`${wanted}${wanted.includes("?") ? "&" : "?"}file=${encodeURIComponent(path)}`);
    // A file is listed once for each step that changes it.
    file = answer.files[files.slice(0, index).filter((one) => one.path === path).length];
    if (!file) throw { message: `${path} is no longer in the diff.` };
  }
  files[index] = { ...file, folded: false, open: true };
}
function code(file) {
  return h("div.code", { tabindex: "0", role: "region", "aria-label": `Diff of ${file.path}` }, file.hunks.map((hunk) => [h("div.h", hunk.header), hunk.lines.map((line) => {
    const [kind, sign] = SIGN[line.kind] || SIGN[" "];
    return h(`div${kind ? `.${kind}` : ""}`, h("span", line.old ?? ""), h("span", line.new ?? ""), h("em", sign), h("pre", line.parts.map(([kind, text]) => (kind ? h("span", { class: kind.replace(/\w+/g, "c-$&") }, text) : text))));
  })]));
}

function log({ lines, left_out }, whole) {
  if (!lines.length) return h("p.sec.mu", "Nothing was logged yet.");
  const STATE = { error: "bad", warn: "warn" }, more = left_out + Math.max(0, lines.length - MAX_OUTPUT_LINES);
  return h("div.log", { tabindex: "0", role: "region", "aria-label": "Log" }, more ? h("p", `${plural(more, "earlier line")}: ${whole}`) : "", lines.slice(-MAX_OUTPUT_LINES).map((line) =>
    h("div", h("span.mu", new Date(line.ts).toLocaleTimeString()), h("span.mu", line.attempt ?? ""), h(`span.word.s-${STATE[line.level] || "off"}`, line.event || line.level), h("span", line.message))));
}

/** The output of the gate or the attempt that the route names. */
export function outputOf(run, { task, gate, attempt }) {
  const whole = `mahabharatha logs ${run.feature}`;
  if (gate) return output(api("features", run.feature, "gates", gate), true, "gate", `${whole} --gate ${run.gates.find((one) => gateFile(one) === gate).gate}`);
  const { attempts } = run.byId.get(task), shown = attempts.find((one) => one.attempt === attempt) || attempts.at(-1);
  return output(`${api("features", run.feature, "tasks", task)}/output?attempt=${shown?.attempt}`, shown, "attempt", `${whole} --task ${task}`);
}

/** What an agent says and does or a gate prints, as it comes. Follows its end until the user scrolls up. */
function output(url, shown, what, whole) {
  const list = h("div.out", { tabindex: "0", role: "log", "aria-live": "off", "aria-label": "Output" }), jump = h("button.btn.jump", { type: "button", hidden: true }), status = h("p.sec.mu", shown ? "Connecting…" : "No attempt was made yet.");
  const el = h("div.card.flat", list, jump, status);
  let unseen = 0, isCut = false, source, ended = false;
  const atEnd = () => list.scrollHeight - list.scrollTop - list.clientHeight < 30;
  const toEnd = () => {
    list.scrollTop = list.scrollHeight;
    unseen = 0;
    jump.hidden = true;
  };
  function add({ lines, left_out }) {
    const follows = atEnd();
    isCut ||= left_out;
    list.append(...lines.map(({ kind, text }) => {
      if (kind !== "tool") return h(/output$/.test(kind) ? "pre" : "div", { class: kind }, text);
      const [first, ...rest] = text.split(" ");
      return h("div.tool", h("b", first), ` ${rest.join(" ")}`);
    }));
    while (list.childElementCount > MAX_OUTPUT_LINES) (list.firstChild.remove(), (isCut = true));
    if (follows) toEnd();
    else {
      unseen += lines.length;
      jump.textContent = `${plural(unseen, "new line")} ↓`;
      jump.hidden = false;
    }
    say();
  }
  const say = () => {
    const state = ended ? (list.childElementCount ? `The ${what} has ended.` : `The ${what} printed nothing.`) : list.childElementCount ? "Live." : "Nothing printed yet.";
    status.textContent = isCut ? `${state} Earlier output is not shown: ${whole}` : state;
  };
  jump.addEventListener("click", toEnd);
  list.addEventListener("scroll", () => atEnd() && (jump.hidden = true, (unseen = 0)));
  function open() {
    if (!shown) return;
    source = new EventSource(url);
    // After a lost connection the server goes on where it was.
    source.addEventListener("open", say);
    source.addEventListener("lines", (event) => add(JSON.parse(event.data)));
    source.addEventListener("end", () => {
      ended = true;
      source.close();
      say();
    });
    source.addEventListener("error", () => (status.textContent = source.readyState === EventSource.CLOSED ? "The output cannot be read." : "Connection lost: reconnecting. What was printed so far stays."));
  }
  return { el, update() {}, mounted: open, close: () => source?.close() };
}
