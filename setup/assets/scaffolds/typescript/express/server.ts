import { buildApp } from "./app.ts";
import { readSettings } from "./settings.ts";

const { host, port } = readSettings(process.env);

const server = buildApp().listen(port, host, (error) => {
  if (error) {
    throw error;
  }
  process.stdout.write(`Listening on http://${host}:${port}\n`);
});

for (const signal of ["SIGINT", "SIGTERM"] as const) {
  process.once(signal, () => server.close());
}
