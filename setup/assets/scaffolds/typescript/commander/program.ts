import { readFileSync } from "node:fs";

import { Command } from "commander";

import { greet, InvalidNameError } from "./greeting.ts";

interface Manifest {
  readonly name: string;
  readonly version: string;
  readonly description: string;
}

function readManifest(): Manifest {
  return JSON.parse(readFileSync(new URL("../package.json", import.meta.url), "utf8"));
}

/** What is printed goes to `print`, so that tests can read it. */
export function buildProgram(print: (line: string) => void): Command {
  const { name, version, description } = readManifest();
  const program = new Command(name).version(version).description(description);

  program
    .command("greet")
    .description("greet somebody by name")
    .argument("<name>", "who is greeted")
    .option("--shout", "in capital letters")
    .action((name: string, options: { shout?: true }, command: Command) => {
      try {
        const greeting = greet(name);
        print(options.shout ? greeting.toUpperCase() : greeting);
      } catch (error) {
        if (error instanceof InvalidNameError) {
          command.error(`error: ${error.message}`, { exitCode: 2 });
        }
        throw error;
      }
    });

  return program;
}
