// The cases: `node cases.mjs NAME URL SPEC_DIRECTORY`. The Rust tests beside this file prepare the runs.

import assert from "node:assert/strict";
import fs from "node:fs";
import path from "node:path";
import { assertAccessible, assertClean, assertFits, browser, close, copied, count, elements, focused, go, open, see, shoot } from "./browser.mjs";

const [name, url, spec] = process.argv.slice(2);
const letGo = (who) => fs.writeFileSync(path.join(spec, who === "all" ? "go" : `${who}.go`), "");
const ROUTES = [["#/", "x"], ["#/x", "Level 1"], ["#/x/timeline", "w0"], ["#/x/tasks", "Title"], ["#/x/report", "Checklist"], ["#/x/task/B-1", "Verification"], ["#/x/task/B-1/output", "sqlite or postgres?"], ["#/x/task/B-1/diff", "b1"], ["#/x/task/B-1/log", "exit code 3"]];

const cases = {
  /** A run that asks a question, while another agent works. */
  async views() {
    for (const dark of [false, true]) for (const width of [1400, 420]) {
      const page = await open(url, { width, dark }), look = `${width}-${dark ? "dark" : "light"}`;
      for (const [hash, text] of ROUTES) {
        await go(page, hash, text);
        await page.waitForFunction(() => !document.body.innerText.includes("Loading…"));
        await assertFits(page, `${hash} ${look}`);
        await shoot(page, `${hash.slice(2).replace(/\W+/g, "-") || "features"}-${look}`);
        await assertAccessible(page, `${hash} ${look}`);
      }
      await close(page);
    }
  },

  /** What the same run shows in words. */
  async details() {
    const page = await open(`${url}#/x`);
    for (const text of ["running", "sqlite or postgres?", "mahabharatha retry -f x B-1", "C-1", "waits for it", "Level 2"]) await see(page, text);
    assert.match(await page.title(), /^\? x/);
    // The words of the user go into the command, quoted for a shell.
    await page.fill("textarea", "use 'sqlite'\nnow");
    await see(page, "--note 'use '\\''sqlite'\\'' now'");
    await page.click(".need .cp");
    assert.equal(await copied(page), "mahabharatha retry -f x B-1 --note 'use '\\''sqlite'\\'' now'");
    assert.equal(await count(page, "[data-act]"), 0, "without permission there is no button");
    await go(page, "#/x/task/A-1/diff", "half");
    assert.equal(await page.locator(".code .a pre").first().innerText(), "half");
    await see(page, "owned");
    await go(page, "#/broken", "Task graph has problems", "mahabharatha design broken --validate-only");
    await go(page, "#/", "broken");
    fs.cpSync(path.join(spec, "../broken"), path.join(spec, "../late"), { recursive: true });
    await see(page, "late");
    await go(page, "#/nonsense", "nonsense");
    await go(page, "#/x/task/NONE", "no task NONE");
    await close(page);
  },

  /** The page follows a run from its first agent to its report. */
  async live() {
    const page = await open(`${url}#/x`);
    await page.waitForSelector('.node.s-run[data-item="A-1"]');
    assert.equal(await page.locator(".live").innerText(), "live");
    const other = await open(`${url}#/x/task/A-1/output`);
    await see(other, "first line of A-1");
    letGo("A-1");
    await see(other, "last line of A-1");
    await see(other, "The attempt has ended.");
    await page.waitForSelector('.node.s-ok[data-item="A-1"]');
    await page.waitForSelector('.node.s-run[data-item="B-1"]');
    await page.evaluate(() => (window.same = document.querySelector('[data-item="B-1"]')));
    letGo("all");
    await see(page, "completed");
    assert.ok(await page.evaluate(() => window.same.isConnected && window.same.classList.contains("s-ok")), "nodes keep their places");
    await see(page, "Nothing needs you");
    await page.waitForFunction(() => /x is completed/.test(document.querySelector("#say").textContent));
    await go(page, "#/x/report", "Verification Checklist", "All tasks in completed status (2 of 2)");
    assert.ok(await count(page, ".md table"));
    await shoot(page, "report-completed");
    await assertAccessible(page, "report");
    await close(other);
    await close(page);
  },

  /** A task that fixes a gate is running, though it is completed; the gates lead to their logs. */
  async gates() {
    const page = await open(`${url}#/x`);
    await page.waitForSelector('.node.s-run[data-item="A-1"]');
    await page.waitForSelector('.node.s-ok[data-item="B-1"]');
    await see(page, "fixes gate lint");
    await see(page, "1 of 2 done");
    await page.hover(".lv .gates a");
    await shoot(page, "fix");
    await assertAccessible(page, "fix");
    await go(page, "#/x/tasks", "fixes gate lint");
    assert.equal(await count(page, 'tr.s-run [data-item="A-1"]'), 1);
    await go(page, "#/x/task/A-1", "running", "fixes gate lint");
    await go(page, "#/x/timeline", "lint");
    const bar = page.locator('a.b[aria-label^="Gate lint, level 1, run 1, failed"]');
    assert.equal(await bar.count(), 1);
    await go(page, "#/x");
    await page.click(".lv .gates a");
    await see(page, "Gate lint, level 1, run 1");
    for (const text of ["linted", "a1:1:BAD", "The gate has ended."]) await see(page, text);
    await shoot(page, "gate");
    await assertAccessible(page, "gate");
    await page.keyboard.press("Escape");
    await page.waitForSelector(".node");
    letGo("all");
    await see(page, "Nothing needs you");
    await close(page);
  },

  /** With --allow-actions a question is answered, and a task skipped after being asked. */
  async actions() {
    const page = await open(`${url}#/x`);
    await see(page, "sqlite or postgres?");
    await page.click("text=Answer and retry");
    await see(page, "Write an answer first");
    await page.fill("textarea", "use sqlite");
    await shoot(page, "actions");
    await assertAccessible(page, "actions");
    await page.click("text=Answer and retry");
    await page.waitForSelector('.node.s-ok[data-item="B-1"]');
    await see(page, "no such file");
    await page.click('[data-act="skip"]');
    await see(page, "mahabharatha skip -f x D-1");
    await page.click("dialog >> text=Cancel");
    assert.equal(await count(page, '.node.s-bad[data-item="D-1"]'), 1);
    await page.click('[data-act="skip"]');
    await page.click("dialog .pri");
    await page.waitForSelector('.node.s-off[data-item="D-1"][aria-label*="skipped"]');
    await see(page, "1 of 3 done, 1 skipped");
    await see(page, "1 of 2, 1 skipped");
    await page.click('[data-act="stop"]');
    await page.click("dialog .pri");
    await see(page, "paused");
    await close(page);
  },

  /** A file that an agent asks for is granted, after a question with the command. */
  async grant() {
    const page = await open(`${url}#/x`);
    await see(page, "it has the type");
    // What waits for a person goes on waiting when no process works on the run.
    await page.waitForFunction(() => /^([3-9]|\d\d)/.test(document.querySelector(".need time")?.textContent));
    await go(page, "#/x/timeline", "A-1 waits");
    assert.match(await page.locator(".tl .wait").getAttribute("aria-label"), /^A-1 waits for you, [1-9]/);
    await go(page, "#/x");
    await page.click('[data-act="grant"]');
    await see(page, "mahabharatha task grant -f x A-1 types.rs");
    await shoot(page, "grant");
    await assertAccessible(page, "grant");
    await page.click("dialog >> text=Cancel");
    assert.equal(await count(page, '[data-act="grant"]'), 1);
    await page.click('[data-act="grant"]');
    await page.click("dialog .pri");
    await see(page, "A-1: granted and queued again. Go on with: mahabharatha run x");
    await page.waitForSelector('.node.s-off[data-item="A-1"]');
    await close(page);
  },

  /** A level that waits on staging is approved as it was shown. */
  async approve() {
    for (const width of [1400, 420]) {
      const page = await open(`${url}#/x`, { width });
      await see(page, "Waits for your approval");
      await see(page, "waits for approval");
      await assertFits(page, `approval at ${width}`);
      await shoot(page, `approval-${width}`);
      await assertAccessible(page, "approval");
      await page.click("text=Look at the diff");
      await page.waitForFunction(() => location.hash === "#/x/level/1");
      await see(page, "types.rs");
      await shoot(page, `level-${width}`);
      await assertAccessible(page, "level");
      if (width < 700) {
        await page.click('[data-act="approve"]');
        await page.waitForFunction(() => /Merge level 1 \(tree \w{10}\) into main\?/.test(document.querySelector("dialog").innerText));
        assert.match(await page.locator("dialog code").innerText(), /^mahabharatha merge --approve=\w+ --level 1 -f x$/);
        await page.click("dialog .pri");
        await see(page, "level 1 is approved");
        await page.waitForFunction(() => !document.querySelector('[data-act="approve"]'));
      }
      await close(page);
    }
  },

  /** The same request is refused without permission. */
  async read_only() {
    const page = await open(`${url}#/x`);
    await see(page, "sqlite or postgres?");
    assert.equal(await count(page, "[data-act]"), 0);
    await see(page, "Read-only");
    const [status, body] = await page.evaluate(async () => {
      const answer = await fetch("api/features/x/actions", { method: "POST", headers: { "content-type": "application/json" }, body: '{"action":"skip","task":"B-1"}' });
      return [answer.status, await answer.json()];
    });
    assert.equal(status, 403);
    assert.equal(body.code, "read_only");
    await close(page);
  },

  /** Titles, questions, file names, output and diffs are text, whatever is in them. */
  async hostile() {
    const page = await open(`${url}#/x`);
    for (const [hash, text] of [["#/x", "<img"], ["#/x/tasks", "<img"], ["#/x/timeline", "w0"], ["#/x/report", "Checklist"], ["#/x/task/B-1", "<script>"], ["#/x/task/B-1/output", "<svg onload"], ["#/x/task/B-1/diff", "</script><script>"], ["#/x/task/B-1/log", "agent_started"], ["#/", "x"]]) {
      await go(page, hash, text);
      await page.mouse.move(400, 500);
      await assertClean(page);
    }
    assert.equal(await count(page, "main img, main script, main iframe"), 0);
    await go(page, "#/x/task/B-1/output", "Earlier output is not shown: mahabharatha logs x --task B-1");
    await go(page, "#/x/task/B-1/diff", "odd<U+202E>name");
    await page.click("text=Show 3000 lines");
    await see(page, "2999");
    await page.route("**/log?*", async (route) => {
      const answer = await route.fetch();
      await route.fulfill({ json: { ...(await answer.json()), left_out: 7 } });
    });
    await go(page, "#/x/task/B-1/log", "7 earlier lines: mahabharatha logs x --task B-1");
    for (const bad of ["#/%00", "#/x/task/%3Cimg%20src=x%20onerror=pwned=1%3E", "#/%E0%A4%A", "#/../../etc", "#/x/task/B-1?attempt=99", "#/__proto__/constructor"]) {
      await go(page, bad);
      await page.waitForFunction(() => /\S/.test(document.querySelector("main").innerText.replace("Loading…", "")));
      await assertClean(page);
    }
    await close(page);
  },

  /** Another token: one sentence, and nothing of the run. */
  async wrong_token() {
    const page = await browser.newPage();
    const wrong = url.replace(/[0-9a-f]{32}/, "0".repeat(32));
    assert.notEqual(wrong, url);
    for (const path of ["", "api/features", "app.js", "api/features/x/status"]) {
      const answer = await page.goto(wrong + path);
      assert.equal(answer.status(), 403, path);
      const text = await page.evaluate(() => document.body.innerText);
      assert.ok(text.length < 300 && !text.includes("A-1") && !text.includes("B-1"), text);
    }
    await page.close();
  },

  /** The server goes away: said in words, and what was shown stays. */
  async lost() {
    const page = await open(`${url}#/x`);
    await page.waitForSelector(".node");
    fs.writeFileSync(path.join(spec, "seen"), "");
    await see(page, "last update");
    await see(page, "has a new address");
    assert.match(await page.locator(".live").innerText(), /^(reconnecting|connection lost), last update \d+s ago$/);
    assert.ok(await count(page, ".node"));
    assert.equal(await count(page, "[data-from]"), 0, "clocks stand still");
    await shoot(page, "lost");
    await assertAccessible(page, "lost");
    await page.keyboard.press("3");
    await see(page, "A-1");
    await page.keyboard.press("4");
    await see(page, "does not answer");
    await page.context().close();
  },

  async keys() {
    const page = await open(`${url}#/x`);
    await page.waitForSelector(".node");
    const at = () => page.evaluate(() => location.hash), press = async (...keys) => { for (const key of keys) await page.keyboard.press(key); };
    const waitAt = async (hash) => {
      await page.waitForFunction((hash) => location.hash === hash && document.activeElement !== document.body, hash).catch(async () => assert.fail(`not at ${hash} but at ${await at()}, focus on ${await focused(page)}`));
    };
    await press("2");
    await waitAt("#/x/timeline");
    await press("4");
    await waitAt("#/x/report");
    await press("3");
    await waitAt("#/x/tasks");
    await see(page, "Attempts");
    await press("j");
    assert.equal(await focused(page), "B-1", "what needs you is first");
    await press("j", "k", "j");
    assert.equal(await focused(page), "A-1");
    await press("Enter");
    await waitAt("#/x/task/A-1");
    for (const [key, hash] of [["2", "/output"], ["3", "/diff"], ["4", "/log"], ["1", ""]]) {
      await press(key);
      await waitAt(`#/x/task/A-1${hash}`);
    }
    await press("k");
    await waitAt("#/x/task/B-1");
    await press("Escape");
    await waitAt("#/x/tasks");
    assert.equal(await focused(page), "B-1", "back to where it was opened");
    await press("/");
    assert.equal(await focused(page), "find");
    await page.keyboard.type("a-1");
    assert.equal(await at(), "#/x/tasks", "keys are off while typing");
    await page.waitForFunction(() => document.querySelectorAll("tbody tr").length === 1);
    await press("Enter", "1");
    await waitAt("#/x");
    await page.waitForFunction(() => document.querySelectorAll("a.node:not(.dim)").length === 1);
    await press("Escape");
    await page.waitForFunction(() => document.querySelectorAll("a.node:not(.dim)").length === 3);
    assert.equal(await at(), "#/x", "Esc clears the filter first");
    await press("/", "z", "Escape");
    assert.equal(await focused(page), "find");
    assert.equal(await page.inputValue("#find"), "");
    await press("Escape", "n");
    await waitAt("#/x/task/B-1");
    await press("r");
    assert.equal(await page.evaluate(() => document.activeElement.tagName), "TEXTAREA");
    await press("Escape", "Escape");
    await waitAt("#/x");
    await page.locator('.node[tabindex="0"]').focus();
    const before = await focused(page);
    await press("ArrowRight");
    assert.notEqual(await focused(page), before, "arrows move in the graph");
    const box = () => page.locator("svg.graph").getAttribute("viewBox"), whole = await box();
    await press("+");
    assert.notEqual(await box(), whole);
    await press("0");
    assert.equal(await box(), whole);
    await press("y");
    assert.match(await copied(page), /^mahabharatha retry -f x B-1/);
    await press("?");
    await see(page, "copy the command");
    await assertAccessible(page, "help");
    await press("Escape");
    assert.equal(await count(page, "dialog[open]"), 0);
    await press("Escape");
    await waitAt("#/");
    await press("j", "Enter");
    await waitAt("#/x");
    await close(page);
  },

  /** 1,000 tasks: few elements, and no waiting. */
  async thousand() {
    for (const width of [1400, 420]) {
      const page = await open(`${url}#/x/task/T-500`, { width });
      // The status in the page has no tasks; they come as an event.
      assert.equal(await page.evaluate(() => JSON.parse(document.querySelector("#first").textContent).status.tasks.length), 0);
      await see(page, "Task 500");
      await see(page, "Text 500");
      for (const [hash, text] of [["#/x", "Level 1"], ["#/x/tasks", "880 more"], ["#/x/task/T-500", "Task 500"]]) {
        await go(page, hash, text);
        const there = await elements(page);
        assert.ok(there <= 3200, `${hash} at ${width}: ${there} elements`);
        await assertFits(page, `${hash} at ${width}`);
        await shoot(page, `thousand${hash.replace(/\W+/g, "-")}-${width}`);
      }
      await go(page, "#/x", "Level 1");
      assert.equal(await count(page, width > 700 ? "a.node" : ".chip"), 1000);
      await assertAccessible(page, `1,000 tasks at ${width}`);
      await close(page);
    }
  },
};

try {
  await cases[name]();
} finally {
  await browser.close();
}
