import { Hono } from "hono";
import { secureHeaders } from "hono/secure-headers";

import { greet, InvalidNameError } from "./greeting.ts";

export function buildApp(): Hono {
  const app = new Hono();
  app.use(secureHeaders());

  app.get("/health", (context) => context.json({ status: "ok" }));

  app.get("/greetings/:name", (context) =>
    context.json({ message: greet(context.req.param("name")) }),
  );

  app.notFound((context) => context.json({ error: "Not found" }, 404));

  app.onError((error, context) => {
    if (error instanceof InvalidNameError) {
      return context.json({ error: error.message }, 400);
    }
    process.stderr.write(`${error.stack ?? error.message}\n`);
    return context.json({ error: "Internal server error" }, 500);
  });

  return app;
}
