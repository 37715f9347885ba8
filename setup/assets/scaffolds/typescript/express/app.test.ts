import assert from "node:assert/strict";
import { once } from "node:events";
import type { AddressInfo } from "node:net";
import { after, before, test } from "node:test";

import { buildApp } from "../src/app.ts";
import { maxNameLength } from "../src/greeting.ts";

const server = buildApp().listen(0, "127.0.0.1");
let origin: string;

before(async () => {
  if (!server.listening) {
    await once(server, "listening");
  }
  const { port } = server.address() as AddressInfo;
  origin = `http://127.0.0.1:${port}`;
});

after(() => {
  server.close();
  server.closeAllConnections();
});

test("is healthy", async () => {
  const response = await fetch(`${origin}/health`);
  assert.equal(response.status, 200);
  assert.equal(response.headers.get("x-powered-by"), null);
  assert.deepEqual(await response.json(), { status: "ok" });
});

test("greets by name", async () => {
  const response = await fetch(`${origin}/greetings/Ada`);
  assert.equal(response.status, 200);
  assert.deepEqual(await response.json(), { message: "Hello, Ada!" });
});

test("refuses an invalid name", async () => {
  for (const name of ["%20", "x".repeat(maxNameLength + 1)]) {
    const response = await fetch(`${origin}/greetings/${name}`);
    assert.equal(response.status, 400);
  }
});

test("answers in JSON where there is nothing", async () => {
  const response = await fetch(`${origin}/nowhere`);
  assert.equal(response.status, 404);
  assert.deepEqual(await response.json(), { error: "Not found" });
});
