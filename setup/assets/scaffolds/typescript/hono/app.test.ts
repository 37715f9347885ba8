import assert from "node:assert/strict";
import { test } from "node:test";

import { buildApp } from "../src/app.ts";
import { maxNameLength } from "../src/greeting.ts";

const app = buildApp();

test("is healthy", async () => {
  const response = await app.request("/health");
  assert.equal(response.status, 200);
  assert.deepEqual(await response.json(), { status: "ok" });
});

test("greets by name", async () => {
  const response = await app.request("/greetings/Ada");
  assert.equal(response.status, 200);
  assert.deepEqual(await response.json(), { message: "Hello, Ada!" });
});

test("refuses an invalid name", async () => {
  for (const name of ["%20", "x".repeat(maxNameLength + 1)]) {
    const response = await app.request(`/greetings/${name}`);
    assert.equal(response.status, 400);
  }
});

test("answers in JSON where there is nothing", async () => {
  const response = await app.request("/nowhere");
  assert.equal(response.status, 404);
  assert.deepEqual(await response.json(), { error: "Not found" });
});
