// Runs a program on another release of Node: node scripts/on-node.ts 22 node_modules/vitest/vitest.mjs run packages
import { spawnSync } from "node:child_process";
import { findNode } from "../test/packaging/nodes.ts";

const [major, ...args] = process.argv.slice(2);
if (major !== "20" && major !== "22" && major !== "24") {
  throw new Error("the first argument must be 20, 22 or 24");
}
const { path, missing } = await findNode(Number(major) as 20 | 22 | 24);
process.exitCode = missing === undefined ? (spawnSync(path, args, { stdio: "inherit" }).status ?? 1) : 1;
