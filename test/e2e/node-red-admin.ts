import { spawn } from "node:child_process";
import { once } from "node:events";
import { createRequire } from "node:module";
import { format } from "node:util";
import { vi } from "vitest";

const require = createRequire(import.meta.url);
const program = require.resolve("node-red-admin/node-red-admin.js");
/** A package without types. */
const library = {
  run: require("node-red-admin") as (args: readonly string[]) => Promise<void>,
  config: require("node-red-admin/lib/config.js") as { unload(): void },
  result: require("node-red-admin/lib/result.js") as { format(name: string): void },
};

/**
 * Runs node-red-admin with a folder, which has its configuration, and returns what it prints. Not for commands that ask something. It runs
 * in this process, because to load it takes most of the time of a command: one at a time.
 */
export async function runNodeRedAdmin(folder: string, args: readonly string[]): Promise<string> {
  let output = "";
  const print = (...values: readonly unknown[]): void => void (output += `${format(...values)}\n`);
  using _log = vi.spyOn(console, "log").mockImplementation(print);
  using _warn = vi.spyOn(console, "warn").mockImplementation(print);
  // What it keeps in memory.
  library.config.unload();
  library.result.format("text");
  // It has printed why it fails.
  await library.run([...args, "--userDir", folder]).catch(() => {});
  return output;
}

/** Runs it in a process of its own, with answers to its prompts. */
export async function answerNodeRedAdmin(
  folder: string,
  args: readonly string[],
  answers: readonly string[],
): Promise<string> {
  const { PATH, NODE_COMPILE_CACHE } = process.env;
  const child = spawn(process.execPath, [program, ...args, "--userDir", folder], {
    env: { PATH, NODE_COMPILE_CACHE, HOME: folder },
    stdio: ["pipe", "pipe", "pipe"],
  });
  const left = [...answers];
  let output = "";
  let answered = 0;
  const read = (chunk: Buffer): void => {
    output += chunk.toString();
    // Each prompt ends with a colon, and is repeated by its terminal.
    const prompts = ["Username:", "Password:"].filter((prompt) => output.includes(prompt)).length;
    for (; answered < prompts && left.length > 0; answered += 1) {
      child.stdin.write(`${left.shift()}\n`);
    }
    if (left.length === 0) {
      child.stdin.end();
    }
  };
  child.stdout.on("data", read);
  child.stderr.on("data", read);
  await once(child, "close");
  return output;
}
