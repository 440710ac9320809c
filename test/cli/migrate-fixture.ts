// A process that migrates a store, until it is interrupted.
import { once } from "node:events";
import { runCommandLine } from "@flowgate/cli";
import { createServiceCommands } from "../../src/cli/service-commands.ts";
import { unusedProgram } from "./unused-program.ts";

const service = createServiceCommands({
  ...unusedProgram,
  exit: (code) => process.exit(code),
  async migrateStore({ signal }) {
    // Keeps the process alive, like a connection.
    const alive = setInterval(() => {}, 60_000);
    process.stdout.write("copying");
    if (signal !== undefined) {
      await once(signal, "abort");
    }
    clearInterval(alive);
    throw signal?.reason;
  },
});
await runCommandLine({ version: "", service });
