// Words, signs and times, the same as on the terminal; and what they are derived from.

export const TABS = ["overview", "output", "diff", "log"];
/** Rows of a table that are added at once. */
export const ROWS = 120;

/** Formats a duration in milliseconds. */
export function dur(ms) {
  if (!(ms > 0)) return "0s";
  if (ms < 1e4 && ms % 1000) return `${(ms / 1e3).toFixed(1)}s`;
  const all = Math.round(ms / 1e3), two = (n) => String(n).padStart(2, "0");
  const hours = Math.floor(all / 3600), minutes = Math.floor((all % 3600) / 60);
  return hours ? `${hours}h ${two(minutes)}m` : minutes ? `${minutes}m ${two(all % 60)}s` : `${all}s`;
}
export const about = (ms) => (ms < 6e4 ? "less than 1m" : dur(Math.round(ms / 6e4) * 6e4).replace(" 00s", ""));
export const at = (stamp) => (stamp ? Date.parse(stamp) : 0);
export const plural = (n, word) => `${n} ${word}${n === 1 ? "" : "s"}`;
export const tokens = (n) => (n >= 1e6 ? `${(n / 1e6).toFixed(1)} M` : n >= 1e3 ? `${Math.round(n / 1e3)} k` : String(n));

/** Formats a cost; a lower bound if a part is unknown. */
export function usd(cost) {
  const known = cost.known_cost_usd || 0;
  if (cost.cost_usd !== null && cost.cost_usd !== undefined) return `$${cost.cost_usd.toFixed(2)}`;
  return known ? `at least $${known.toFixed(2)}` : "unknown";
}

/** Quotes text for a shell, on one line; `"…"` stands for text that is still missing. */
const quote = (text) =>
  text.trim() ? `'${text.trim().replace(/\s*\n\s*/g, " ").replace(/'/g, "'\\''")}'` : '"…"';

/** Returns the command of a problem with the user's words in it. */
export function withNote(command, note) {
  if (command.includes('"…"')) return command.replace('"…"', () => quote(note));
  const takesNote = note.trim() && /^mahabharatha retry /.test(command);
  return takesNote ? `${command} --note ${quote(note)}` : command;
}

export const link = (feature, ...rest) => `#/${[feature, ...rest].filter(Boolean).map(encodeURIComponent).join("/")}`;
export const taskLink = (run, id, tab, attempt) =>
  link(run.feature, "task", id, tab === "overview" ? "" : tab) + (attempt ? `?attempt=${attempt}` : "");
export const levelLink = (run, level) => link(run.feature, "level", String(level));
/** A run of a gate is named by the file of its log. */
export const gateFile = (gate) => gate.log.split("/").pop();
export const gateLink = (run, gate) => link(run.feature, "gate", gateFile(gate));
const placeOf = ({ at }) => (/^\d+$/.test(at) ? `level ${at}` : at === "base" ? "base branch" : at);
export const gateName = (gate) => `${gate.gate}, ${gate.task ? `${gate.task}, ` : ""}${placeOf(gate)}, run ${gate.run}`;
/** A completed run opens on its report. */
export const home = (run) => link(run.feature, run.status === "completed" ? "report" : "");

/** The order in which tasks are listed. */
export const RANK = { asks: 0, "needs a person": 0, blocked: 1, running: 2, verifying: 2, "no process": 2, "retries soon": 3, pending: 4, done: 5, skipped: 6 };

export const changing = (task) => task.attempts.at(-1)?.outcome === "running";
/** A completed task runs again while it fixes a gate. */
export const isRunning = (task) => task.status === "in_progress" || (task.status === "completed" && changing(task));
/** Returns which gate a running attempt fixes, in words. */
export function fixes(run, task) {
  const gate = task.attempts.at(-1)?.fix && run.gates.findLast((one) => one.at === String(task.level) && one.status === "failed");
  return gate ? `fixes gate ${gate.gate}` : "";
}
/** Returns the state of a task: the class of its colour, its sign and its word. */
export function look(run, task) {
  switch (isRunning(task) ? "in_progress" : task.status) {
    case "blocked": return task.question ? ["ask", "ask", "asks"] : ["bad", "bad", "blocked"];
    case "waiting": return ["ask", "ask", "needs a person"];
    case "completed": return ["ok", "ok", "done"];
    case "skipped": return ["off", "skip", "skipped"];
    case "in_progress": {
      const worker = run.byWorker.get(task.worker);
      if (!isDriven(run) && worker?.status !== "running" && !task.session) return ["warn", "warn", "no process"];
      return worker?.phase === "verifying" ? ["run", "ver", "verifying"] : ["run", "run", "running"];
    }
    default: return task.next_attempt_at ? ["warn", "again", "retries soon"] : ["off", "off", "pending"];
  }
}

export const LEVELS = { merged: "ok", gating: "run", merging: "run", running: "run", failed: "bad", undone: "warn", skipped: "off", pending: "off" };
export const GATES = { passed: ["ok", "ok"], failed: ["bad", "bad"], running: ["run", "ver"], cancelled: ["off", "skip"], unknown: ["warn", "warn"] };

/** Returns the state of an attempt: class, sign and words. */
export function outcome(attempt, task) {
  const cause = attempt.cause === "unchanged" ? ": no changes" : attempt.cause ? `: ${String(attempt.cause).replace(/_/g, " ")}` : "";
  switch (attempt.outcome) {
    case "running": return ["run", "run", "running"];
    case "done": return ["ok", "ok", "done"];
    case "blocked": return task?.question ? ["ask", "ask", "asked a question"] : ["bad", "bad", "blocked"];
    case "checkpoint": return ["warn", "again", "stopped at a checkpoint"];
    case "cancelled": return ["off", "skip", "cancelled"];
    case "unserved": return ["warn", "again", "not served by the API"];
    default: return ["bad", "bad", attempt.outcome + cause];
  }
}

const WORDS = {
  completed: ["ok", "ok"], failed: ["bad", "bad"], undone: ["off", "skip"], paused: ["warn", "warn"], stopped: ["warn", "warn"], running: ["run", "run"],
  waiting: ["warn", "warn"], asks: ["ask", "ask"], blocked: ["bad", "bad"], invalid: ["bad", "bad"],
};
/** Returns the state of a run or a listed feature. */
export function stateOf(run) {
  let word = run.status;
  if (word === "running" && run.pause) word = "waiting";
  if (word === "paused" && run.stopped) word = "stopped";
  if (word === "planned" && run.problems?.length) word = "invalid";
  if (word === "blocked" && run.tasks?.some((task) => task.status === "waiting" || task.question)) word = "asks";
  return [...(WORDS[word] || ["off", "off"]), word];
}

const KINDS = {
  question: ["ask", "Question"], grant: ["ask", "Asks for a file"], person: ["ask", "Needs a person"], approval: ["ask", "Waits for your approval"],
  gate: ["bad", "Gate failed"], design: ["bad", "Task graph has problems"], conflict: ["bad", "Conflict"], paused: ["warn", "Paused"], undriven: ["warn", "Interrupted"],
  failed: ["bad", "Failed"], red_base: ["bad", "Gate fails on the base branch"], setup: ["bad", "Setup failed"], limit: ["warn", "API limit"],
};
export const kindOf = (problem) => KINDS[problem.kind] || ["bad", "Blocked"];

/** Tells whether a process works on the run, so that its clocks move. */
export const isDriven = (run) => run.status === "running" || Boolean(run.paused);
/** The time at which the connection was lost, if it is: clocks stand still then. */
export const clocks = { stopped: 0 };
export const now = (run) => (isDriven(run) ? Math.max(clocks.stopped || Date.now(), at(run.updated_at)) : at(run.updated_at));
/** Time since a moment. It goes on when no process works on the run. */
export const age = (stamp) => (clocks.stopped || Date.now()) - at(stamp);
const sinceUpdate = (run) => now(run) - at(run.updated_at);
export const elapsed = (run) => (run.elapsed_seconds || 0) * 1e3 + sinceUpdate(run);
export const took = (run, attempt) => (attempt.elapsed_seconds || 0) * 1e3 + (attempt.outcome === "running" ? sinceUpdate(run) : 0);
export const worked = (run, task) => task.attempts.reduce((sum, attempt) => sum + took(run, attempt), 0);
/** Time of the current attempt while it runs, else of all attempts. */
export function timeOf(run, task) {
  const latest = task.attempts.at(-1);
  return latest?.outcome === "running" ? took(run, latest) : worked(run, task);
}
export const totalOf = (run) => run.levels.reduce((sum, level) => sum + level.total, 0);
/** Tells whether the tasks are still to come: a large status is in the page without them. */
export const isPartial = (run) => !run.tasks.length && totalOf(run) > 0;
export const doneOf = (run) => run.levels.reduce((sum, level) => sum + level.completed, 0);
/** Returns words for done tasks of a level or all levels; skipped ones do not count. */
export function countOf(levels, between = "/", after = "") {
  const sum = (name) => levels.reduce((sum, level) => sum + level[name], 0), skipped = sum("skipped");
  return `${sum("completed")}${between}${sum("total") - skipped}${after}${skipped && between !== "/" ? `, ${skipped} skipped` : ""}`;
}
/** A user can retry a task more often than the run does. */
export const ofAttempts = (run, n) => (n && run.max_attempts >= n ? `${n} of ${run.max_attempts}` : n);
export const matches = (run, task, query) =>
  !query || `${task.id} ${task.title} ${look(run, task)[2]} l${task.level}`.toLowerCase().includes(query.toLowerCase());

/** Returns what needs the user, the most urgent first. */
export function problemsOf(run) {
  const rank = { ask: 0, bad: 1, warn: 2 };
  const all = [...(run.problems || [])];
  if (run.pause) {
    all.push({ what: "run", kind: "limit", cause: run.pause.why, text: `${run.pause.why}\nNo new attempts until ${new Date(run.pause.until).toLocaleTimeString()}. Nothing is lost.`, commands: [], holds: [] });
  }
  return all.sort((a, b) => rank[kindOf(a)[0]] - rank[kindOf(b)[0]] || b.holds.length - a.holds.length);
}

/** Adds what the views look up often. */
export function indexed(run) {
  run.tasks ||= [];
  run.levels ||= [];
  run.workers ||= [];
  run.gates ||= [];
  run.byId = new Map(run.tasks.map((task) => [task.id, task]));
  run.byWorker = new Map(run.workers.map((worker) => [worker.id, worker]));
  run.byLevel = new Map(run.levels.map((level) => [level.level, []]));
  for (const task of run.tasks) run.byLevel.get(task.level)?.push(task);
  for (const level of run.levels) level.completed -= run.byLevel.get(level.level).filter((task) => task.status === "completed" && isRunning(task)).length;
  run.held = new Map();
  for (const problem of run.problems || []) {
    if (!problem.task) continue;
    for (const id of problem.holds) if (!run.held.has(id)) run.held.set(id, kindOf(problem)[0]);
  }
  return run;
}
