import assert from "node:assert/strict";
import { after, test } from "node:test";

import { buildApp } from "../src/app.ts";
import { maxNameLength } from "../src/greeting.ts";

const app = buildApp();
after(() => app.close());

test("is healthy", async () => {
  const response = await app.inject("/health");
  assert.equal(response.statusCode, 200);
  assert.deepEqual(response.json(), { status: "ok" });
});

test("greets by name", async () => {
  const response = await app.inject("/greetings/Ada");
  assert.equal(response.statusCode, 200);
  assert.deepEqual(response.json(), { message: "Hello, Ada!" });
});

test("refuses an invalid name", async () => {
  for (const name of ["%20", "x".repeat(maxNameLength + 1)]) {
    const response = await app.inject(`/greetings/${name}`);
    assert.equal(response.statusCode, 400);
  }
});

test("has nothing elsewhere", async () => {
  const response = await app.inject("/nowhere");
  assert.equal(response.statusCode, 404);
});
