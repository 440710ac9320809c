import { isUtf8 } from "node:buffer";
import type * as clack from "@clack/prompts";
import { CliFailure, exitCodes } from "../failure.ts";
import { printable } from "../printable.ts";

// stdout is for results.
const options = { output: process.stderr, withGuide: false };

/** True if there is a person to ask. */
export function canAsk(): boolean {
  return process.stdin.isTTY && process.stderr.isTTY;
}

export async function askText(question: string): Promise<string> {
  return ask(({ text }) => text({ ...options, message: printable(question) }), "");
}

/** Shows a mark for each character. */
export async function askSecret(question: string): Promise<string> {
  return ask(({ password }) => password({ ...options, message: printable(question) }), "");
}

/** The answer is no unless the person chooses yes. */
export async function askConfirmation(question: string): Promise<boolean> {
  return ask(({ confirm }) => confirm({ ...options, message: printable(question), initialValue: false }), false);
}

/** Asks before something is lost. Throws a CliFailure with `declined`, or with `unattended` if there is no person to ask. */
export async function confirm(
  question: string,
  { declined, unattended }: { readonly declined: string; readonly unattended: CliFailure },
): Promise<void> {
  if (!canAsk()) {
    throw unattended;
  }
  if (!(await askConfirmation(question))) {
    throw new CliFailure(declined);
  }
}

/** Ctrl-C ends the command like a signal. Without an answer, it is `empty`. */
async function ask<T extends string | boolean>(
  prompt: (prompts: typeof clack) => Promise<T | typeof clack.CANCEL_SYMBOL | undefined>,
  empty: T,
): Promise<T> {
  // Some terminals, such as those of containers, do not report their size: the prompts would put each character on its own line.
  if (process.stderr.columns === 0) {
    Object.assign(process.stderr, { columns: 80, rows: 24 });
  }
  const answer = await prompt(await import("@clack/prompts"));
  if (typeof answer === "symbol") {
    throw new CliFailure("", { exitCode: exitCodes.interrupted });
  }
  return answer ?? empty;
}

/** Reads a secret from the first line of a stream, without what follows. `name` is what it is, for errors. */
export async function readSecretLine(input: AsyncIterable<Buffer>, name: string): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of input) {
    chunks.push(chunk);
    if (chunk.includes("\n")) {
      break;
    }
  }
  const bytes = Buffer.concat(chunks);
  if (!isUtf8(bytes)) {
    throw new CliFailure(`The ${name} is not UTF-8.`);
  }
  const [line = ""] = bytes.toString("utf8").split(/\r?\n/);
  if (line === "") {
    throw new CliFailure(`The ${name} is empty.`);
  }
  return line;
}
