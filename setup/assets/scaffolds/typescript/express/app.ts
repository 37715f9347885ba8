import express, { type ErrorRequestHandler, type Express } from "express";

import { greet, InvalidNameError } from "./greeting.ts";

const handleError: ErrorRequestHandler = (error, _request, response, next) => {
  if (error instanceof InvalidNameError) {
    response.status(400).json({ error: error.message });
    return;
  }
  next(error);
};

export function buildApp(): Express {
  const app = express();
  app.disable("x-powered-by");

  app.get("/health", (_request, response) => {
    response.json({ status: "ok" });
  });

  app.get("/greetings/:name", (request, response) => {
    response.json({ message: greet(request.params.name) });
  });

  app.use((_request, response) => {
    response.status(404).json({ error: "Not found" });
  });
  app.use(handleError);

  return app;
}
