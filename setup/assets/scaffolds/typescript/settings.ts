export interface Settings {
  readonly host: string;
  readonly port: number;
}

/** Reads what the environment says about the server. */
export function readSettings(env: NodeJS.ProcessEnv): Settings {
  const port = Number(env.PORT ?? "3000");
  if (!Number.isInteger(port) || port < 0 || port > 65_535) {
    throw new Error(`PORT must be a number from 0 to 65535, not "${env.PORT}"`);
  }
  return { host: env.HOST ?? "127.0.0.1", port };
}
