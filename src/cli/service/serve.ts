import type { Program } from "./program.ts";
import { createFileWatch } from "./file-watch.ts";
import type { Flags } from "./flags.ts";
import { configPathOf } from "./read-input.ts";
import { readOptions } from "./read-options.ts";
import { start } from "./start.ts";

/** Runs the service until a signal, and ends the process. */
export async function serve(
  flags: Flags,
  { openGateway, beforeLoad }: Pick<Program, "openGateway" | "beforeLoad">,
): Promise<void> {
  const path = configPathOf(flags, process.env);
  // Before the file is read, so that no change is missed.
  const watch = path === undefined ? undefined : await createFileWatch(path);
  const options = await readOptions(flags, process.env, beforeLoad);
  try {
    await start(options, openGateway, { read: () => readOptions(flags, process.env), watch });
  } finally {
    // Everything is closed, also after a failed start. The process must not wait for output that is not read.
    setTimeout(() => {
      // The log's listener would wait for the output to be read.
      process.removeAllListeners("exit");
      process.exit();
    }, 1000).unref();
  }
}
