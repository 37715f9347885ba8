import assert from "node:assert/strict";
import { test } from "node:test";

import { greet, InvalidNameError, maxNameLength } from "../src/greeting.ts";

test("greets by name", () => {
  assert.equal(greet("Ada"), "Hello, Ada!");
  assert.equal(greet("  Ada\n"), "Hello, Ada!");
});

test("accepts the longest name", () => {
  assert.match(greet("x".repeat(maxNameLength)), /^Hello, x/);
});

test("refuses an invalid name", () => {
  for (const name of ["", "  ", "x".repeat(maxNameLength + 1)]) {
    assert.throws(() => greet(name), InvalidNameError);
  }
});
