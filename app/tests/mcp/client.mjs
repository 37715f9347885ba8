// The official client, driven by lines of JSON: each names a method of the client and its arguments, and is answered when the
// server has answered. `{ "cancel": id }` cancels a call, the end of the input disconnects.

import { createRequire } from "node:module";
import path from "node:path";
import readline from "node:readline";

const require = createRequire(path.join(process.env.MCP_MODULES, "x.js"));
const { Client } = require("@modelcontextprotocol/sdk/client/index.js");
const { StdioClientTransport } = require("@modelcontextprotocol/sdk/client/stdio.js");

const [command, ...args] = process.argv.slice(2);
const client = new Client({ name: "tests", version: "1" });
const transport = new StdioClientTransport({ command, args, env: process.env, cwd: process.cwd(), stderr: "inherit" });
const say = (line) => process.stdout.write(`${JSON.stringify(line)}\n`);
// What is not a message of the protocol must not be on the server's output.
client.onerror = (error) => say({ trouble: String(error) });
await client.connect(transport);
say({ pid: transport.pid, server: client.getServerVersion(), instructions: client.getInstructions() });

const cancels = new Map();

async function handle({ id, method, params, cancel }) {
  if (cancel !== undefined) return cancels.get(cancel).abort("no longer wanted");
  const controller = new AbortController();
  cancels.set(id, controller);
  const options = { signal: controller.signal, timeout: 120_000 };
  try {
    // Only this method has the schema of the result between its arguments.
    const result = method === "callTool" ? await client.callTool(params, undefined, options) : await client[method](params, options);
    say({ id, result });
  } catch (error) {
    say({ id, error: { code: error.code, message: error.message, data: error.data } });
  }
}

for await (const line of readline.createInterface({ input: process.stdin })) handle(JSON.parse(line));
await client.close();
