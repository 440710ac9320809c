#!/usr/bin/env node
import { useUserCompileCache } from "./compile-cache.ts";

useUserCompileCache(process.env);
const { readVersion, runCommandLine } = await import("./run.ts");

await runCommandLine({ version: readVersion(import.meta.url) });
