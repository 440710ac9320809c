import { execFile } from "node:child_process";
import { cp } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { go, goEnvironment } from "../../../../test/go.ts";
import { openListeningProgram } from "../listening-program.ts";

const run = promisify(execFile);
const root = join(import.meta.dirname, "../../../..");
const source = join(import.meta.dirname, "peers");
const proto = "packages/gateway/test/proto/gatewaytest/v1/compliance.proto";
// The generated code must be in the module.
const folder = join(root, "node_modules/.cache/peers");
const binary = join(folder, "bin/peers");
const env = { ...process.env, ...goEnvironment };

/**
 * Generates and builds the program with transcoders of other vendors. Resolves with the reason if Go or its modules are missing; rejects
 * if the program can't be built.
 */
export async function buildPeers(): Promise<string | undefined> {
  if (go === undefined) {
    return "Go is not installed";
  }
  await cp(source, folder, { recursive: true });
  const options = { cwd: folder, env };
  try {
    await run(go, ["mod", "download"], options);
  } catch (error) {
    return (error as Error).message;
  }
  // Builds the plugins too, which takes minutes the first time.
  await run(join(root, "node_modules/.bin/buf"), ["generate", root, "--path", join(root, proto)], options);
  await run(go, ["build", "-o", binary, "."], options);
  return undefined;
}

/** Starts one of the gateways. */
export function openPeer(name: string): ReturnType<typeof openListeningProgram> {
  return openListeningProgram(binary, [name]);
}
