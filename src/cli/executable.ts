// The program of the single-file executable, which scripts/build-executable.ts makes.
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

const [, , word, program] = process.argv;
if (word === launchArgument && program !== undefined && isConfined()) {
  load(program);
} else {
  await runCommandLine({
    version: () => (JSON.parse(getAsset("package.json", "utf8")) as { version: string }).version,
    async openGateway(options) {
      const folder = unpackProgram(options.dataDir);
      const { openGateway } = load(join(folder, "dist/src/gateway.js")) as typeof gateway;
      const opened = await openGateway(options);
      // Not before: now the data directory is ours, and no other service runs one of those.
      removeOtherPrograms(folder);
      return opened;
    },
    async copyStore(...copy) {
      // Not into the data directory, which may not be this user's.
      const place = mkdtempSync(join(tmpdir(), "flowgate-"));
      try {
        const { copyStore } = load(join(unpackProgram(place), "dist/src/cli/copy-store.js")) as typeof store;
        await copyStore(...copy);
      } finally {
        rmSync(place, { recursive: true, force: true });
      }
    },
  });
}

/** Under Node's permission model. Without it no program is loaded that runs flows. */
function isConfined(): boolean {
  return (process.permission as NodeJS.ProcessPermission | undefined) !== undefined;
}

/** `import` finds nothing on the disk here. */
function load(path: string): unknown {
  return createRequire(path)(path);
}
