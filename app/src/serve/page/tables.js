// Views made of text: the features, the tasks of one, and its report.

import { h, icon } from "./dom.js";
import { RANK, ROWS, at, changing, countOf, doneOf, dur, fixes, home, isRunning, link, look, matches, outcome, plural, stateOf, taskLink, timeOf, took, totalOf, usd } from "./words.js";
import { clock, command } from "./parts.js";

export function featureList(features) {
  if (!features.length) {
    return h("section.card.sec", h("h1.title", "No feature yet"), h("p", "Begin one in a terminal:"),
      ["mahabharatha init", "mahabharatha plan <feature>", "mahabharatha design", "mahabharatha run"].map((text) => command(text)));
  }
  const row = (one) => {
    const [state, sign, word] = stateOf(one);
    return h("tr", { "data-href": home(one), "data-key": one.feature },
      h("td", h("a", { href: home(one), "data-item": one.feature }, h("b", one.feature)), one.current ? h("span.mu", " current") : ""),
      h("td", h(`span.word.s-${state}`, icon(sign, state), " ", word), one.blocked && word !== "blocked" ? h("span.word.s-bad", ` ${one.blocked} blocked`) : ""),
      h("td.r", one.total ? countOf([one]) : ""),
      h("td.r.opt2", one.known_cost_usd || one.cost_usd ? usd(one) : ""),
      h("td.opt2.mu", one.updated_at ? h("time", { datetime: one.updated_at }, new Date(one.updated_at).toLocaleString()) : ""),
      h("td.t.mu.opt2", { title: one.problem || false }, one.problem || ""));
  };
  return h("div.card.clip", h("h1.vh", "Features"), h("table",
    h("thead", h("tr", ["Feature", "State"].map((name) => h("th", { scope: "col" }, name)), h("th.r", { scope: "col" }, "Done"), h("th.r.opt2", { scope: "col" }, "Cost"), h("th.opt2", { scope: "col" }, "Last change"), h("th.opt2", { scope: "col" }, "Problem"))),
    h("tbody", features.map(row))));
}

/** The tasks as a table. `order` keeps rows in place while the user is in it. */
export function taskTable(run, query, limit, order) {
  const found = run.tasks.filter((task) => matches(run, task, query));
  const rank = order || new Map();
  if (!order) {
    const newest = (a, b) => (a.completed_at && b.completed_at ? at(b.completed_at) - at(a.completed_at) : 0);
    const sorted = [...run.tasks].sort((a, b) => RANK[look(run, a)[2]] - RANK[look(run, b)[2]] || newest(a, b));
    sorted.forEach((task, index) => rank.set(task.id, index));
  }
  found.sort((a, b) => rank.get(a.id) - rank.get(b.id));
  const row = (task) => {
    const [state, sign, word] = look(run, task), worker = isRunning(task) && run.byWorker.get(task.worker), doing = [fixes(run, task), worker?.doing].filter(Boolean).join(": ");
    return h(`tr.s-${state}`, { "data-href": taskLink(run, task.id), "data-key": task.id },
      h("td", icon(sign, state), " ", h("span.word.opt2", word)),
      h("td.m", h("a", { href: taskLink(run, task.id), "data-item": task.id }, h("b", task.id), h("span.vh", `, ${word}`))),
      h("td.t", task.title, doing ? h("span.mu", ` ${doing}`) : ""),
      h("td.opt2", task.level), h("td.opt2", task.attempts.length || ""),
      h("td.r", task.attempts.length ? clock(run, timeOf(run, task), changing(task)) : ""),
      h("td.r.opt2", task.known_cost_usd || task.cost_usd ? usd(task) : ""));
  };
  const head = (name, extra = "") => h(`th${extra}`, { scope: "col" }, name);
  const more = found.length - limit;
  const element = h("div.list", h("div.card.clip", h("table",
    h("thead", h("tr", head("State"), head("Task"), head("Title"), head("Level", ".opt2"), head("Attempts", ".opt2"), head("Time", ".r"), head("Cost", ".r.opt2"))),
    h("tbody", found.slice(0, limit).map(row)))),
    found.length ? "" : h("p.calm", "No task matches the filter."),
    more > 0 ? h("p.calm", `${more} more: type to filter, or `, h("button.btn", { type: "button", "data-more": true }, `show ${Math.min(more, ROWS)} more`)) : "");
  return { element, rank };
}

/** The completion report, or how far the run is. `text` is undefined until it is loaded. */
export function report(run, text) {
  if (text) return h("div.card.sec.md", markdown(text, run));
  const skipped = run.tasks.filter((task) => task.status === "skipped").length, gates = run.gates.filter((gate) => !gate.task), passed = gates.filter((gate) => gate.status === "passed").length, merged = run.levels.filter((level) => level.merged_at);
  const tries = run.tasks.flatMap((task) => task.attempts.map((attempt) => [task, attempt])), failed = tries.filter(([, attempt]) => !["done", "running", "checkpoint"].includes(attempt.outcome));
  const check = (is, words) => h("li", icon(is ? "ok" : "off"), " ", words, h("span.vh", is ? ": yes" : ": not yet"));
  return h("div.card",
    h("div.two",
      h("section.sec", h("h2", "Checklist"), h("ul",
        check(doneOf(run) + skipped === totalOf(run), countOf(run.levels, " of ", " tasks completed")),
        gates.length ? check(passed === gates.length, `${passed} of ${plural(gates.length, "gate run")} passed`) : "",
        check(merged.length === run.levels.length, [`${merged.length} of ${plural(run.levels.length, "level")} merged`, run.landing_branch ? [" onto ", h("code", run.landing_branch.replace("refs/heads/", ""))] : ""]),
        check(!run.tasks.some((task) => task.status === "blocked"), "no blocked task"))),
      h("section.sec", h("h2", "Merged"), h("ul", merged.length ? merged.map((level) => h("li", `Level ${level.level} `, level.commit ? ["as ", h("code", String(level.commit).slice(0, 10))] : "without a change", h("span.mu", ` after ${dur(at(level.merged_at) - at(run.started_at))}`))) : h("li.mu", run.status === "completed" ? "Nothing: every task was skipped" : "Nothing yet")))),
    failed.length ? h("section.sec", h("h2", "Failed attempts ", h("span", `${failed.length} of ${tries.length}`)), h("ul", failed.slice(0, 20).map(([task, attempt]) => attemptRow(run, task, attempt, true)))) : "",
    run.decisions?.length ? h("section.sec", h("h2", "Decisions"), h("ul", run.decisions.map((one) => h("li", h("a.m", { href: taskLink(run, one.task) }, h("b", one.task)), " ", one.text)))) : "",
    h("p.sec.mu", run.status === "completed" ? "Its report is not written yet." : "The completion report is written when the feature is completed."));
}

export function attemptRow(run, task, attempt, named) {
  const [state, sign, words] = outcome(attempt, task);
  return h("li.att", icon(sign, state), h("a", { href: taskLink(run, task.id, "diff", attempt.attempt) }, named ? h("b.m", task.id) : h("b", `Attempt ${attempt.attempt}`)),
    h("span", named ? `attempt ${attempt.attempt}: ` : "", words, h("span.mu", ` on worker ${attempt.worker}${attempt.agent ? `, ${attempt.agent}` : ""}${attempt.model ? ` (${attempt.model})` : ""}`)),
    h("span.mu", clock(run, took(run, attempt), attempt.outcome === "running")),
    attempt.detail && attempt.detail !== task.question && (named || attempt.detail !== task.reason) ? h("p", named ? attempt.detail.split(/\n\s*\n/)[0] : attempt.detail) : "",
    attempt.strays?.length ? h("p.s-bad", h("span.word", "Changed without owning it: "), attempt.strays.join(", ")) : "",
    (attempt.warnings || []).map((warning) => h("p", warning)));
}

/** Renders as much Markdown as reports use: headings, lists, tables, code, strong text. */
export function markdown(text, run) {
  const lines = text.split(/\r?\n/), out = [];
  let i = 0;
  const isRow = (line) => /^\s*\|.*\|\s*$/.test(line || "");
  while (i < lines.length) {
    const line = lines[i], fence = /^(\s*)(`{3,}|~{3,})\s*(\S*)/.exec(line), heading = /^(#{1,6}) +(.*)/.exec(line);
    if (fence) {
      const body = [];
      for (i++; i < lines.length && !lines[i].trim().startsWith(fence[2]); i++) body.push(lines[i].startsWith(fence[1]) ? lines[i].slice(fence[1].length) : lines[i]);
      i++;
      out.push(fence[3] === "mermaid" ? h("p", h("a.under", { href: link(run.feature, "timeline") }, "See the timeline")) : h("pre", { tabindex: "0" }, body.join("\n")));
    } else if (heading) {
      out.push(h(`h${Math.min(4, heading[1].length)}`, inline(heading[2])));
      i++;
    } else if (isRow(line) && /^[\s|:-]+$/.test(lines[i + 1] || "")) {
      const cells = (row) => row.trim().slice(1, -1).split(/(?<!\\)\|/).map((cell) => inline(cell.trim().replace(/\\\|/g, "|")));
      const rows = [];
      const head = cells(line);
      for (i += 2; isRow(lines[i]); i++) rows.push(cells(lines[i]));
      out.push(h("div.scroll", { tabindex: "0", role: "region", "aria-label": "Table" }, h("table", h("thead", h("tr", head.map((cell) => h("th", { scope: "col" }, cell)))), h("tbody", rows.map((row) => h("tr", row.map((cell) => h("td", cell))))))));
    } else if (/^\s*[-*] /.test(line)) {
      const items = [];
      for (; i < lines.length && /^\s*[-*] /.test(lines[i]); i++) {
        const check = /^\s*[-*] (?:\[([ xX])\] )?(.*)/.exec(lines[i]);
        items.push(h("li", check[1] ? [icon(check[1] === " " ? "off" : "ok"), h("span.vh", check[1] === " " ? "not done: " : "done: "), " "] : "", inline(check[2])));
      }
      out.push(h("ul", items));
    } else if (line.trim()) {
      const words = [];
      for (; i < lines.length && lines[i].trim() && !/^(#{1,6} |\s*[-*] |\s*(```|~~~))/.test(lines[i]) && !isRow(lines[i]); i++) words.push(lines[i].trim());
      if (!words.length) words.push(lines[i++]);
      out.push(h("p", inline(words.join(" "))));
    } else i++;
  }
  return out;
}
function inline(text) {
  const out = [], token = /(`+)(.+?)\1|\*\*(.+?)\*\*/g;
  let last = 0, plain = (part) => part.replace(/\\([!-/:-@[-`{-~])/g, "$1");
  for (const match of text.matchAll(token)) {
    out.push(plain(text.slice(last, match.index)), match[2] !== undefined ? h("code", match[2].trim()) : h("strong", plain(match[3])));
    last = match.index + match[0].length;
  }
  return [...out, plain(text.slice(last))];
}
