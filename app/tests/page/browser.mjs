// Opens the page in Chromium and notes everything that must never happen: scripts that run, requests to elsewhere, errors.

import assert from "node:assert/strict";
import fs from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";

const { PAGE_MODULES, PAGE_CHROMIUM, PAGE_SHOTS } = process.env;
const require = createRequire(path.join(PAGE_MODULES, "x.js"));
const { chromium } = require("playwright-core");
const axe = require("axe-core");

// As root Chromium cannot use its own sandbox. It opens only the pages of the tests.
export const browser = await chromium.launch({ executablePath: PAGE_CHROMIUM, args: ["--no-sandbox"] });

/** Opens an address. What the page must not do is looked at by `close`. */
export async function open(url, { width = 1400, height = 900, dark = false } = {}) {
  const context = await browser.newContext({ viewport: { width, height }, colorScheme: dark ? "dark" : "light", permissions: ["clipboard-read", "clipboard-write"] });
  const page = await context.newPage();
  page.setDefaultTimeout(30_000);
  page.trouble = [];
  await page.addInitScript(() => {
    window.violations = [];
    document.addEventListener("securitypolicyviolation", (event) => window.violations.push(`${event.violatedDirective} ${event.blockedURI} ${event.sample}`));
  });
  page.on("pageerror", (error) => page.trouble.push(`error: ${error.message}`));
  page.on("dialog", (dialog) => (page.trouble.push(`dialog: ${dialog.message()}`), dialog.dismiss()));
  page.on("request", (request) => {
    if (!request.url().startsWith(new URL(url).origin) && !request.url().startsWith("data:")) page.trouble.push(`request: ${request.url()}`);
  });
  await page.goto(url);
  return page;
}

/** Nothing ran that the page did not bring, nothing was blocked, nothing failed. */
export async function close(page) {
  await assertClean(page);
  await page.context().close();
}

export async function assertClean(page) {
  const found = await page.evaluate(() => [window.pwned ? ["a script of the data has run"] : [], window.violations].flat());
  assert.deepEqual([...page.trouble, ...found], []);
}

/** Goes to a route without a reload, and waits until its marks are there. */
export async function go(page, hash, ...texts) {
  await page.evaluate((hash) => (location.hash = hash), hash);
  for (const text of texts) await see(page, text);
}

/** Waits until the page shows the text. */
export async function see(page, text) {
  await page.waitForFunction((text) => document.body.innerText.includes(text), text).catch(async () => {
    assert.fail(`not shown: ${text}\n--- shown:\n${await page.evaluate(() => document.body.innerText)}`);
  });
}

/** Fails for each serious problem that axe-core finds. */
export async function assertAccessible(page, what) {
  await assertClean(page);
  await page.evaluate(axe.source);
  const { violations } = await page.evaluate(() => window.axe.run(document, { resultTypes: ["violations"] }));
  // What axe-core itself tried is not the page's.
  await page.evaluate(() => (window.violations = []));
  const serious = violations.filter(({ impact }) => impact === "serious" || impact === "critical");
  const lines = serious.map(({ id, help, nodes }) => `${id}: ${help}\n${nodes.slice(0, 4).map((node) => `  ${node.html.slice(0, 160)}\n  ${(node.any[0] || node.all[0] || node.none[0])?.message}`).join("\n")}`);
  assert.equal(lines.join("\n"), "", what);
}

/** Nothing sticks out at the right. */
export async function assertFits(page, what) {
  const [wide, room] = await page.evaluate(() => [document.scrollingElement.scrollWidth, innerWidth]);
  assert.ok(wide <= room, `${what}: ${wide} px in ${room}`);
}

/** Takes a picture for people to look at, if PAGE_SHOTS names a directory. */
export async function shoot(page, name) {
  if (!PAGE_SHOTS) return;
  fs.mkdirSync(PAGE_SHOTS, { recursive: true });
  await page.screenshot({ path: path.join(PAGE_SHOTS, `${name}.png`), fullPage: true });
}

export const focused = (page) => page.evaluate(() => document.activeElement?.dataset.item || document.activeElement?.id || document.activeElement?.tagName);
/** What was copied, once the browser has done it. */
export const copied = async (page) => {
  await page.waitForFunction(async () => (await navigator.clipboard.readText()) !== "");
  return page.evaluate(() => navigator.clipboard.readText());
};
export const count = (page, selector) => page.locator(selector).count();
export const elements = (page) => page.evaluate(() => document.querySelectorAll("*").length);
