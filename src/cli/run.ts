import { parseArguments } from "./arguments.ts";
import type { copyStore } from "./copy-store.ts";
import { CliFailure } from "./failure.ts";
import { hashPasswordCommand } from "./hash-password.ts";
import { helpText } from "./help.ts";
import { readOptions } from "./read-options.ts";
import { start } from "./start.ts";
import { holdYoungGeneration } from "./young-generation.ts";

/** What the commands need of the program, which is a package of files or a single executable. */
export interface Program {
  readonly version: () => string;
  /** Loads the service: only `start` does, so that the other commands answer at once. */
  readonly openGateway: Parameters<typeof start>[1];
  /** Loads the database; so does `start`. */
  readonly copyStore: typeof copyStore;
  /** Called with the data directory before the service is loaded. */
  readonly loading?: (dataDir: string) => void;
}

/** Does what the command line asks for; what goes wrong is told on stderr and by the exit code. */
export async function runCommandLine(program: Program): Promise<void> {
  try {
    await run(program);
  } catch (error) {
    if (!(error instanceof CliFailure)) {
      throw error;
    }
    if (error.message !== "") {
      process.stderr.write(`${error.message.replaceAll(/^/gm, "flowgate: ")}\n`);
    }
    process.exitCode = error.exitCode;
  }
}

async function run({ version, openGateway, copyStore, loading }: Program): Promise<void> {
  const command = parseArguments(process.argv.slice(2));
  switch (command.kind) {
    case "help":
      process.stdout.write(helpText);
      return;
    case "version":
      process.stdout.write(`${version()}\n`);
      return;
    case "backup":
    case "restore":
      await copyStore(command.kind, command.file, await readOptions(command.flags, process.env));
      return;
    case "hash-password":
      await hashPasswordCommand();
      return;
    case "start": {
      const release = holdYoungGeneration();
      await start(await readOptions(command.flags, process.env, loading), async (options) => {
        const gateway = await openGateway(options);
        // While the flows start, most of what is allocated stays too.
        setTimeout(release, 5_000).unref();
        return gateway;
      });
      // All is closed. Should the reader of our output have stopped reading, that must not keep us.
      setTimeout(() => {
        // One of these is the log's, which would wait for that reader without end.
        process.removeAllListeners("exit");
        process.exit();
      }, 1000).unref();
    }
  }
}
