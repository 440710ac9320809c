import type { migrateStore } from "../store/migrate.ts";
import type { verifyAudit } from "../store/open-store.ts";
import { parseArguments } from "./arguments.ts";
import type { copyStore } from "./copy-store.ts";
import { CliFailure } from "./failure.ts";
import { hashPasswordCommand } from "./hash-password.ts";
import { helpText } from "./help.ts";
import { createFileWatch } from "./file-watch.ts";
import { migrateCommand } from "./migrate.ts";
import { configPathOf } from "./read-input.ts";
import { readOptions } from "./read-options.ts";
import { start } from "./start.ts";
import { verifyAuditCommand } from "./verify-audit.ts";

/** What the commands need of the program, which is either an npm package or a single-file executable. */
export interface Program {
  readonly version: () => string;
  /** Loads the service. Only `start` calls it, so that the other commands are fast. */
  readonly openGateway: Parameters<typeof start>[1];
  /** Loads the database. */
  readonly copyStore: typeof copyStore;
  /** Loads the databases. */
  readonly migrateStore: typeof migrateStore;
  /** Loads the database. */
  readonly verifyAudit: typeof verifyAudit;
  /** Called with the data directory before the service is loaded. */
  readonly beforeLoad?: (dataDir: string) => void;
}

/** Runs the command of the command line. Reports failures on stderr and by the exit code. */
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

async function run({ version, openGateway, copyStore, migrateStore, verifyAudit, beforeLoad }: Program): Promise<void> {
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
    case "migrate":
      await migrateCommand(command.flags, process.env, migrateStore);
      return;
    case "audit-verify":
      await verifyAuditCommand(command.head, await readOptions(command.flags, process.env), verifyAudit);
      return;
    case "hash-password":
      await hashPasswordCommand();
      return;
    case "start": {
      const { flags } = command;
      const path = configPathOf(flags, process.env);
      // Before the file is read, so that no change is missed.
      const watch = path === undefined ? undefined : await createFileWatch(path);
      const options = await readOptions(flags, process.env, beforeLoad);
      await start(options, openGateway, { read: () => readOptions(flags, process.env), watch });
      // Everything is closed. The process must not wait for output that is not read.
      setTimeout(() => {
        // The log's listener would wait for the output to be read.
        process.removeAllListeners("exit");
        process.exit();
      }, 1000).unref();
    }
  }
}
