import type { Command } from "commander";
import type { OutputFormat } from "./output-format.ts";
import type { Output } from "./output.ts";

/** The action of a command that prints results without a server, with the arguments and then the options of the command. */
export function outputAction<A extends readonly unknown[]>(
  run: (output: Output, ...args: A) => Promise<void>,
): (...args: [...A, Command]) => Promise<void> {
  return async (...all) => {
    const command = all.at(-1) as Command;
    const { createOutput } = await import("./output.ts");
    await run(
      await createOutput(command.optsWithGlobals<{ readonly output?: OutputFormat }>().output),
      ...(all.slice(0, -1) as unknown as A),
    );
  };
}
