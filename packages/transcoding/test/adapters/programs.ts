import { spawn } from "node:child_process";
import { once } from "node:events";
import { access, constants } from "node:fs/promises";
import { delimiter, join } from "node:path";

/** The path of a program in PATH; undefined if it is not installed. */
export async function findProgram(name: string): Promise<string | undefined> {
  for (const folder of (process.env["PATH"] ?? "").split(delimiter)) {
    const path = join(folder, name);
    try {
      await access(path, constants.X_OK);
      return path;
    } catch {
      // Not in this folder.
    }
  }
  return undefined;
}

/** Starts a server in another runtime, which prints its URL. `file` is relative to this folder. */
export async function openProgram(
  command: string,
  args: readonly string[],
  file: string,
): Promise<AsyncDisposable & { readonly url: string }> {
  const path = join(import.meta.dirname, file);
  const child = spawn(command, [...args, path], { stdio: ["ignore", "pipe", "inherit"] });
  const exited = once(child, "exit");
  const dispose = async (): Promise<void> => {
    child.kill();
    await exited;
  };
  let text = "";
  for await (const chunk of child.stdout.setEncoding("utf8").iterator({ destroyOnReturn: false })) {
    text += String(chunk);
    const url = /listens on (http:\S+)\n/.exec(text)?.[1];
    if (url !== undefined) {
      return { url, [Symbol.asyncDispose]: dispose };
    }
  }
  await dispose();
  throw new Error(`${file} did not listen: ${text}`);
}
