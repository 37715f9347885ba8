#!/usr/bin/env node
import { buildProgram } from "./program.ts";

await buildProgram((line) => process.stdout.write(`${line}\n`)).parseAsync();
