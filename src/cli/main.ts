#!/usr/bin/env node
import { setFlagsFromString } from "node:v8";

const isService = startsService(process.argv[2]);
if (isService) {
  // Must run before other modules are loaded: for their objects, most of which are long-lived, V8 would enlarge the young generation, and
  // keep the memory. Other commands end before their memory matters, and collecting garbage takes a sixth of their time.
  setFlagsFromString("--semi-space-growth-factor=1");
}
const { useUserCompileCache } = await import("@flowgate/cli/compile-cache");
if (!isService) {
  useUserCompileCache(process.env);
}
const { run } = await import("./run.ts");

await run();

/** True if these are the arguments of `serve`, whose compile cache is in its data directory. A bare command has its flags. */
function startsService(first = "serve"): boolean {
  const isFlag = first.startsWith("-") && !["--help", "-h", "--version", "-V"].includes(first);
  return isFlag || first === "serve";
}
