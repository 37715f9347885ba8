import Fastify, { type FastifyInstance, type FastifyServerOptions } from "fastify";

import { greet, InvalidNameError, maxNameLength } from "./greeting.ts";

const greetingSchema = {
  params: {
    type: "object",
    required: ["name"],
    properties: { name: { type: "string", maxLength: maxNameLength } },
  },
  response: {
    200: {
      type: "object",
      required: ["message"],
      properties: { message: { type: "string" } },
    },
  },
} as const;

export function buildApp(options: FastifyServerOptions = {}): FastifyInstance {
  const app = Fastify(options);

  app.setErrorHandler((error, _request, reply) => {
    if (error instanceof InvalidNameError) {
      return reply.code(400).send({ error: error.message });
    }
    throw error;
  });

  app.get("/health", async () => ({ status: "ok" }));

  app.get<{ Params: { name: string } }>(
    "/greetings/:name",
    { schema: greetingSchema },
    async (request) => ({ message: greet(request.params.name) }),
  );

  return app;
}
