#!/usr/bin/env node
import { readFile } from "node:fs/promises";
import { findPackageJSON } from "node:module";
import { type Command, parseArguments } from "./arguments.ts";
import { CliFailure } from "./failure.ts";
import { hashPasswordCommand } from "./hash-password.ts";
import { helpText } from "./help.ts";
import { readOptions } from "./read-options.ts";
import { start } from "./start.ts";

try {
  await run(parseArguments(process.argv.slice(2)));
} catch (error) {
  if (!(error instanceof CliFailure)) {
    throw error;
  }
  if (error.message !== "") {
    process.stderr.write(`${error.message.replaceAll(/^/gm, "flowgate: ")}\n`);
  }
  process.exitCode = error.exitCode;
}

async function run(command: Command): Promise<void> {
  switch (command.kind) {
    case "help":
      process.stdout.write(helpText);
      return;
    case "version":
      process.stdout.write(`${await readVersion()}\n`);
      return;
    case "hash-password":
      await hashPasswordCommand();
      return;
    case "start": {
      const options = await readOptions(command.flags, process.env);
      // Only here: the other commands answer at once, without loading the service.
      const { openGateway } = await import("../gateway.ts");
      await start(options, openGateway);
      // All is closed. Should the reader of our output have stopped reading, that must not keep us.
      setTimeout(() => {
        // One of these is the log's, which would wait for that reader without end.
        process.removeAllListeners("exit");
        process.exit();
      }, 1000).unref();
    }
  }
}

async function readVersion(): Promise<string> {
  const path = findPackageJSON(import.meta.url);
  const { version } = JSON.parse(await readFile(path ?? "", "utf8")) as { version: string };
  return version;
}
