import { setFlagsFromString } from "node:v8";
import { readVersion, runCommandLine } from "@flowgate/cli";
import { useCompileCache } from "@flowgate/cli/compile-cache";
import { createServiceCommands } from "./service-commands.ts";

/** Runs the command of the command line, with those of the service. */
export function run(): Promise<void> {
  const service = createServiceCommands({
    async openFlowgate(options) {
      const { openFlowgate } = await import("../app/flowgate.ts");
      const flowgate = await openFlowgate(options);
      // V8's default. Most of what is allocated while the flows start is long-lived too.
      setTimeout(() => setFlagsFromString("--semi-space-growth-factor=2"), 5_000).unref();
      return flowgate;
    },
    migrateStore: async (...migration) => (await import("../store/open-store.ts")).migrateStore(...migration),
    beforeLoad: useCompileCache,
    exit: (code) => process.exit(code),
  });
  return runCommandLine({ version: readVersion(import.meta.url), service });
}
