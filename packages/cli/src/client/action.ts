import type { Command } from "commander";
import type { Output } from "../output/output.ts";
import type { Progress } from "../output/progress.ts";
import type { OutputFormat } from "../output/serialize.ts";
import type { ConnectionFlags } from "./connection-flags.ts";
import type { Connection } from "./connection.ts";
import type { ClientSession } from "./session.ts";

/** The arguments of a client command's action. */
export type ClientContext = {
  readonly connection: Connection;
  readonly session: ClientSession;
  readonly output: Output;
  /** For work of several calls. A single call already shows its own progress. */
  readonly progress: Progress;
};

type OutputFlags = { readonly output?: OutputFormat; readonly full?: true };

/** Returns what a command does without a server, if its flags say so. */
type LocalAction = (command: Command) => (() => Promise<void>) | undefined;

const localActions = new WeakMap<Command, LocalAction>();

/** Lets a command that calls a server work without one too. */
export function runsLocally(command: Command, action: LocalAction): void {
  localActions.set(command, action);
}

/**
 * The action of a command that calls a server. `load` imports its implementation, when the command runs, which gets the arguments
 * and then the flags of the command.
 */
export function clientAction<A extends readonly unknown[]>(
  load: () => Promise<(context: ClientContext, ...args: A) => Promise<void>>,
): (...args: [...A, Command]) => Promise<void> {
  return async (...all) => {
    const command = all.at(-1) as Command;
    const args = all.slice(0, -1) as unknown as A;
    const runLocally = localActions.get(command)?.(command);
    if (runLocally !== undefined) {
      return runLocally();
    }
    const flags = command.optsWithGlobals<ConnectionFlags & OutputFlags>();
    const { resolveConnection } = await import("./connection.ts");
    const connection = await resolveConnection(flags, process.env);
    const [{ openSession, closeConnections }, { createOutput }, { createProgress }] = await Promise.all([
      import("./session.ts"),
      import("../output/output.ts"),
      import("../output/progress.ts"),
    ]);
    const progress = createProgress();
    try {
      const run = await load();
      const session = openSession(connection, progress);
      await run({ connection, session, output: await createOutput(flags.output, flags.full), progress }, ...args);
    } catch (error) {
      const { explainError } = await import("./explain-error.ts");
      throw await explainError(error, connection);
    } finally {
      closeConnections();
    }
  };
}

/** The same for a command that prints results without a server. */
export function outputAction<A extends readonly unknown[]>(
  load: () => Promise<(output: Output, ...args: A) => Promise<void>>,
): (...args: [...A, Command]) => Promise<void> {
  return async (...all) => {
    const command = all.at(-1) as Command;
    const [run, { createOutput }] = await Promise.all([load(), import("../output/output.ts")]);
    const { output, full } = command.optsWithGlobals<OutputFlags>();
    await run(await createOutput(output, full), ...(all.slice(0, -1) as unknown as A));
  };
}
