// The entry point of the single-file executable, which scripts/build-executable.ts builds.
import { mkdtempSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { getAsset } from "node:sea";
import type * as gateway from "../app/gateway.ts";
import type * as copying from "./service/copy-store.ts";
import { launchArgument } from "../runtime/sandbox.ts";
import { runCommandLine } from "./run.ts";
import type * as storing from "../store/open-store.ts";
import { removeOtherPrograms, unpackProgram } from "./service/unpack.ts";

const [, , firstArgument, program] = process.argv;
if (firstArgument === launchArgument && program !== undefined && isConfined()) {
  load(program);
} else {
  await runCommandLine({
    version: () => (JSON.parse(getAsset("package.json", "utf8")) as { version: string }).version,
    async openGateway(options) {
      const folder = unpackProgram(options.dataDir);
      const { openGateway } = load(join(folder, "dist/src/app/gateway.js")) as typeof gateway;
      const opened = await openGateway(options);
      // Only now is the data directory locked, so that no other service runs from one of these folders.
      removeOtherPrograms(folder);
      return opened;
    },
    copyStore: (...copy) =>
      withModule("cli/service/copy-store.js", (module) => (module as typeof copying).copyStore(...copy)),
    migrateStore: (...migration) =>
      withModule("store/open-store.js", (module) => (module as typeof storing).migrateStore(...migration)),
    verifyAudit: (...verify) =>
      withModule("store/open-store.js", (module) => (module as typeof storing).verifyAudit(...verify)),
    rotateStore: (...rotation) =>
      withModule("store/open-store.js", (module) => (module as typeof storing).rotateStore(...rotation)),
    exit: (code) => process.exit(code),
  });
}

/** Whether Node's permission model is active. Without it, the runtime program must not be loaded. */
function isConfined(): boolean {
  return (process.permission as NodeJS.ProcessPermission | undefined) !== undefined;
}

/** Unpacks the program temporarily, and not in the data directory, which may belong to another user. */
async function withModule<T>(path: string, use: (module: unknown) => Promise<T>): Promise<T> {
  const folder = mkdtempSync(join(tmpdir(), "flowgate-"));
  try {
    return await use(load(join(unpackProgram(folder), "dist/src", path)));
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** In a single-file executable, `import` can't load files from the disk. */
function load(path: string): unknown {
  return createRequire(path)(path);
}
