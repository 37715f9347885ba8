import { buildApp } from "./app.ts";
import { readSettings } from "./settings.ts";

const app = buildApp({ logger: true });

for (const signal of ["SIGINT", "SIGTERM"] as const) {
  process.once(signal, () => app.close());
}

await app.listen(readSettings(process.env));
