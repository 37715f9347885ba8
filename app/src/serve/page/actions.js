// What a person can do: copy a command, act on the run if the server allows it, read the keys.

import { $, api, get, h, say } from "./dom.js";
import { problemsOf, withNote } from "./words.js";
import { command, noteKey } from "./parts.js";

let hiding;
export function toast(text, isBad) {
  const box = $("#toast");
  box.replaceChildren(h("p", text));
  box.className = `toast card s-${isBad ? "bad" : "ok"}`;
  box.hidden = false;
  clearTimeout(hiding);
  hiding = setTimeout(() => (box.hidden = true), 10000);
}

async function post(feature, body) {
  const options = { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) };
  try {
    toast((await get(`${api("features", feature)}/actions`, options)).said);
    return true;
  } catch (error) {
    toast([error.message, error.hint].filter(Boolean).join(" "), true);
    return false;
  }
}

/** Does what a button says, after a question where it cannot be undone. */
export async function act(button, state) {
  const { act: action, task, tree, noteOf } = button.dataset, { run } = state, { feature } = run, note = (state.notes.get(noteOf) || "").trim();
  if (action === "retry") {
    if (run.byId.get(task)?.question && !note) {
      toast("Write an answer first: it goes into the next attempt’s prompt.", true);
      return $(`[data-note="${CSS.escape(noteOf)}"]`)?.focus();
    }
    if (await post(feature, { action, task, ...(note ? { note } : {}) })) state.notes.delete(noteOf);
    return;
  }
  const problem = problemsOf(run).find((one) => noteKey(run, one) === noteOf);
  const paths = (run.byId.get(task)?.needs || []).map((need) => need.path), reason = note || "skipped on the page";
  const ASK = {
    skip: ["skip", `Skip ${task}?`, "The run goes on without it, and without the tasks that need it.", { task, reason }],
    grant: ["task grant", `Grant ${paths.join(", ")} to ${task}?`, "The next attempt may change it.", { task, paths }],
    approve: ["merge", `Merge ${problem?.what} (tree ${String(tree).slice(0, 10)}) into ${run.landing_branch?.replace("refs/heads/", "")}?`, "It is merged as it is staged now.", { tree }],
    stop: ["stop", `Stop ${feature}?`, "Agents end, and their work is kept. `mahabharatha run` goes on from there.", {}],
  };
  const [verb, question, text, body] = ASK[action];
  const shown = problem?.commands.find((one) => one.startsWith(`mahabharatha ${verb} `)) || `mahabharatha ${verb} ${feature}`;
  ask(question, [h("p", text), command(withNote(shown, reason))], question.split(" ")[0], () => post(feature, { action, ...body }));
}

function ask(question, parts, label, yes) {
  const dialog = $("#dialog"), confirm = label && h("button.btn.pri", { type: "button" }, label), cancel = h("button.btn", { type: "button" }, label ? "Cancel" : "Close");
  dialog.replaceChildren(h("h2", { id: "dialog-title" }, question), ...parts, h("div.acts", confirm || "", cancel));
  cancel.addEventListener("click", () => dialog.close());
  confirm?.addEventListener("click", () => (dialog.close(), yes()));
  dialog.showModal();
}

const KEYS = [["1 2 3 4", "graph, timeline, tasks, report; in a task: overview, output, diff, log"], ["j k", "next, previous task"], ["Enter", "open"], ["Esc", "clear the filter, back"], ["/", "filter"], ["n", "next that needs you"], ["[ ]", "previous, next attempt"], ["+ − 0", "zoom, fit"], ["r", "answer"], ["y", "copy the command"], ["?", "this help"]];
export const help = () => ask("Keys", [h("dl", KEYS.map(([key, text]) => [h("dt", h("kbd", key)), h("dd", text)]))]);

export async function copy(button) {
  const text = button.dataset.copy;
  const done = await navigator.clipboard?.writeText(text).then(() => true, () => false);
  say(done ? "Command copied" : "");
  if (!done) {
    getSelection().selectAllChildren(button.previousElementSibling || button);
    return toast("Press Ctrl+C to copy the selected command.");
  }
  const before = button.textContent;
  button.textContent = "Copied";
  setTimeout(() => (button.textContent = before), 1500);
}
