import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import type { RuntimeStatus } from "./runtime.ts";

/** Name and version of the embedded flow runtime. */
export function readFlowRuntime(): Pick<RuntimeStatus, "name" | "version"> {
  const manifest = createRequire(import.meta.url).resolve("@node-red/runtime/package.json");
  const { version } = JSON.parse(readFileSync(manifest, "utf8")) as { version: string };
  return { name: "node-red", version };
}
