// The entry point of the single-file executable, which scripts/build-executable.ts builds.
import { mkdtempSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { getAsset } from "node:sea";
import type * as gateway from "../gateway.ts";
import type * as store from "./copy-store.ts";
import { launchArgument } from "../runtime/launch.ts";
import { runCommandLine } from "./run.ts";
import { removeOtherPrograms, unpackProgram } from "./unpack.ts";

const [, , firstArgument, program] = process.argv;
if (firstArgument === launchArgument && program !== undefined && isConfined()) {
  load(program);
} else {
  await runCommandLine({
    version: () => (JSON.parse(getAsset("package.json", "utf8")) as { version: string }).version,
    async openGateway(options) {
      const folder = unpackProgram(options.dataDir);
      const { openGateway } = load(join(folder, "dist/src/gateway.js")) as typeof gateway;
      const opened = await openGateway(options);
      // Only now is the data directory locked, so that no other service runs from one of these folders.
      removeOtherPrograms(folder);
      return opened;
    },
    async copyStore(...copy) {
      // Not in the data directory, which may belong to another user.
      const folder = mkdtempSync(join(tmpdir(), "flowgate-"));
      try {
        const { copyStore } = load(join(unpackProgram(folder), "dist/src/cli/copy-store.js")) as typeof store;
        await copyStore(...copy);
      } finally {
        rmSync(folder, { recursive: true, force: true });
      }
    },
  });
}

/** Whether Node's permission model is active. Without it, the runtime program must not be loaded. */
function isConfined(): boolean {
  return (process.permission as NodeJS.ProcessPermission | undefined) !== undefined;
}

/** In a single-file executable, `import` can't load files from the disk. */
function load(path: string): unknown {
  return createRequire(path)(path);
}
