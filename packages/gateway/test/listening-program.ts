import { once } from "node:events";
import { spawn, type SpawnOptions } from "node:child_process";

/** Starts a program that prints its URL. Nothing is left of it after disposal. */
export async function openListeningProgram(
  command: string,
  args: readonly string[],
  options: Pick<SpawnOptions, "cwd" | "env"> = {},
): Promise<AsyncDisposable & { readonly url: string }> {
  const child = spawn(command, args, { ...options, stdio: ["ignore", "pipe", "inherit"] });
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
  throw new Error(`${args.at(-1)} did not listen: ${text}`);
}
