import { serve } from "@hono/node-server";

import { buildApp } from "./app.ts";
import { readSettings } from "./settings.ts";

const { host, port } = readSettings(process.env);

const server = serve({ fetch: buildApp().fetch, hostname: host, port }, (address) => {
  process.stdout.write(`Listening on http://${host}:${address.port}\n`);
});

for (const signal of ["SIGINT", "SIGTERM"] as const) {
  process.once(signal, () => server.close());
}
