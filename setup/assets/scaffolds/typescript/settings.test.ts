import assert from "node:assert/strict";
import { test } from "node:test";

import { readSettings } from "../src/settings.ts";

test("listens on loopback where nothing is said", () => {
  assert.deepEqual(readSettings({}), { host: "127.0.0.1", port: 3000 });
});

test("takes host and port from the environment", () => {
  assert.deepEqual(readSettings({ HOST: "::", PORT: "8080" }), { host: "::", port: 8080 });
});

test("refuses a port that is none", () => {
  for (const port of ["http", "-1", "65536", "80.5"]) {
    assert.throws(() => readSettings({ PORT: port }), /PORT must be a number/);
  }
});
