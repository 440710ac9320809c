#!/usr/bin/env node
import { readFileSync } from "node:fs";
import { findPackageJSON } from "node:module";
import { holdYoungGeneration } from "./young-generation.ts";

// Before all else is loaded.
const release = holdYoungGeneration();
const { keepCompiledCode } = await import("./compile-cache.ts");
const { runCommandLine } = await import("./run.ts");

await runCommandLine({
  version() {
    const manifest = readFileSync(findPackageJSON(import.meta.url) ?? "", "utf8");
    return (JSON.parse(manifest) as { version: string }).version;
  },
  async openGateway(options) {
    const { openGateway } = await import("../gateway.ts");
    const gateway = await openGateway(options);
    // While the flows start, most of what is allocated stays too.
    setTimeout(release, 5_000).unref();
    return gateway;
  },
  copyStore: async (...copy) => (await import("./copy-store.ts")).copyStore(...copy),
  loading: keepCompiledCode,
});
