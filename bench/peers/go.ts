import { execFile } from "node:child_process";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import type { Contender } from "../compare.ts";
import type { Target } from "../load/target.ts";
import { openProcess, type Server } from "../server.ts";

const run = promisify(execFile);
const folder = fileURLToPath(new URL("../go", import.meta.url));
const repository = fileURLToPath(new URL("../..", import.meta.url));
const binary = join(folder, "bin/peers");

export type GoStack = "connect" | "grpc" | "grpc-gateway" | "grpc-gateway-proxy" | "vanguard";

let building: Promise<string | undefined> | undefined;

/** Generates and builds the Go servers once. Resolves with the reason if they can't run on this machine. */
export function goUnavailableReason(): Promise<string | undefined> {
  return (building ??= build());
}

export function openGo(stack: GoStack): Promise<Server> {
  return openProcess(binary, [stack]);
}

async function build(): Promise<string | undefined> {
  try {
    await run("go", ["version"]);
  } catch {
    return "Go is not installed";
  }
  const protos = [
    "proto/flowgate/v1/auth.proto",
    "proto/flowgate/v1/access.proto",
    "packages/gateway/proto/flowgate/gateway",
  ];
  const paths = protos.flatMap((path) => ["--path", join(repository, path)]);
  try {
    // Builds the plugins too, which takes minutes the first time.
    await run(join(repository, "node_modules/.bin/buf"), ["generate", repository, ...paths], { cwd: folder });
    await run("go", ["build", "-o", binary, "."], { cwd: folder });
  } catch (error) {
    return `the Go servers could not be built: ${error instanceof Error ? error.message.slice(0, 300) : String(error)}`;
  }
}

/** Opens a contender for each stack. Returns notes with the reason if they can't run. */
export async function openGoContenders(
  stack: AsyncDisposableStack,
  stacks: Readonly<Record<string, GoStack>>,
  target: Target,
): Promise<{ contenders: Contender[]; notes: string[] }> {
  const reason = await goUnavailableReason();
  if (reason !== undefined) {
    return { contenders: [], notes: Object.keys(stacks).map((name) => `${name}: not run: ${reason}`) };
  }
  const contenders: Contender[] = [];
  for (const [name, each] of Object.entries(stacks)) {
    contenders.push({ name, server: stack.use(await openGo(each)), target });
  }
  return { contenders, notes: [] };
}
