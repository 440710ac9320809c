#!/usr/bin/env node
import { readFileSync } from "node:fs";
import { findPackageJSON } from "node:module";
import { keepCompiledCode } from "./compile-cache.ts";
import { runCommandLine } from "./run.ts";

await runCommandLine({
  version() {
    const manifest = readFileSync(findPackageJSON(import.meta.url) ?? "", "utf8");
    return (JSON.parse(manifest) as { version: string }).version;
  },
  openGateway: async (options) => (await import("../gateway.ts")).openGateway(options),
  copyStore: async (...copy) => (await import("./copy-store.ts")).copyStore(...copy),
  loading: keepCompiledCode,
});
