import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { test } from "node:test";
import { fileURLToPath } from "node:url";

import { buildProgram } from "../src/program.ts";

function run(...args: string[]): string[] {
  const lines: string[] = [];
  buildProgram((line) => lines.push(line)).parse(args, { from: "user" });
  return lines;
}

function spawn(...args: string[]) {
  const cli = fileURLToPath(new URL("../src/cli.ts", import.meta.url));
  return spawnSync(process.execPath, [cli, ...args], { encoding: "utf8" });
}

test("greets by name", () => {
  assert.deepEqual(run("greet", "Ada"), ["Hello, Ada!"]);
});

test("shouts", () => {
  assert.deepEqual(run("greet", "--shout", "Ada"), ["HELLO, ADA!"]);
});

test("runs as a program", () => {
  const { status, stdout } = spawn("greet", "Ada");
  assert.equal(status, 0);
  assert.equal(stdout, "Hello, Ada!\n");
});

test("refuses an invalid name", () => {
  const { status, stderr } = spawn("greet", "  ");
  assert.equal(status, 2);
  assert.match(stderr, /the name is empty/);
});
