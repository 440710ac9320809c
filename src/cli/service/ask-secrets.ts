import { type Key, emitKeypressEvents } from "node:readline";
import { CliFailure } from "../failure.ts";

/**
 * Prompts for lines at the terminal without echoing the input. Rejects with exit code 130 on Ctrl-C, like a signal.
 */
export async function askSecrets(prompts: readonly string[]): Promise<readonly string[]> {
  const { stdin, stderr } = process;
  const { promise, resolve, reject } = Promise.withResolvers<readonly string[]>();
  const lines: string[] = [];
  const typed: string[] = [];

  const ask = (): void => {
    stderr.write(prompts[lines.length] ?? "");
  };
  const finishLine = (): void => {
    lines.push(typed.splice(0).join(""));
    stderr.write("\n");
    if (lines.length === prompts.length) {
      resolve(lines);
    } else {
      ask();
    }
  };
  const onEnd = (): void => reject(new CliFailure("No password was given."));
  const onKeypress = (character: string | undefined, { name, ctrl, meta }: Key): void => {
    if (ctrl === true && name === "c") {
      reject(new CliFailure("", { exitCode: 130 }));
    } else if (ctrl === true && name === "d") {
      onEnd();
    } else if (ctrl === true && name === "u") {
      typed.length = 0;
    } else if (name === "return" || name === "enter") {
      finishLine();
    } else if (name === "backspace") {
      typed.pop();
    } else if (ctrl !== true && meta !== true && character !== undefined && !/\p{Cc}/u.test(character)) {
      typed.push(character);
    }
  };

  emitKeypressEvents(stdin);
  stdin.setRawMode(true);
  stdin.on("keypress", onKeypress);
  stdin.once("end", onEnd);
  stdin.resume();
  // The first prompt appears only in raw mode, since the terminal would echo anything typed before.
  ask();
  try {
    return await promise;
  } finally {
    stdin.off("keypress", onKeypress);
    stdin.off("end", onEnd);
    stdin.setRawMode(false);
    stdin.pause();
  }
}
