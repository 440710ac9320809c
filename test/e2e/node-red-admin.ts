import { spawn } from "node:child_process";
import { once } from "node:events";
import { createRequire } from "node:module";

const program = createRequire(import.meta.url).resolve("node-red-admin/node-red-admin.js");

/** Runs node-red-admin with a home directory, which has its configuration, and returns what it prints. Prompts are answered in turn. */
export async function runNodeRedAdmin(
  home: string,
  args: readonly string[],
  answers: readonly string[] = [],
): Promise<string> {
  const { PATH, NODE_COMPILE_CACHE } = process.env;
  const child = spawn(process.execPath, [program, ...args], {
    env: { PATH, NODE_COMPILE_CACHE, HOME: home },
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
