import { type CANCEL_SYMBOL, confirm, isCancel, password, text } from "@clack/prompts";
import { CliFailure, exitCodes } from "../failure.ts";
import { printable } from "./printable.ts";

// stdout is for results.
const options = { output: process.stderr, withGuide: false };

// Some terminals, such as those of containers, do not report their size: the prompts would put each character on its own line.
if (process.stderr.columns === 0) {
  Object.assign(process.stderr, { columns: 80, rows: 24 });
}

/** Whether there is a person to ask. */
export function canAsk(): boolean {
  return process.stdin.isTTY && process.stderr.isTTY;
}

export async function askText(question: string): Promise<string> {
  // Undefined: nothing was typed.
  const answer: string | typeof CANCEL_SYMBOL | undefined = await text({ ...options, message: printable(question) });
  return finish(answer) ?? "";
}

/** Shows a mark for each character. */
export async function askSecret(question: string): Promise<string> {
  const answer: string | typeof CANCEL_SYMBOL | undefined = await password({
    ...options,
    message: printable(question),
  });
  return finish(answer) ?? "";
}

/** The answer is no unless the person chooses yes. */
export async function askConfirmation(question: string): Promise<boolean> {
  return finish(await confirm({ ...options, message: printable(question), initialValue: false }));
}

/** Ctrl-C ends the command like a signal. */
function finish<T>(answer: T | typeof CANCEL_SYMBOL): T {
  if (isCancel(answer)) {
    throw new CliFailure("", { exitCode: exitCodes.interrupted });
  }
  return answer;
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
  const [line = ""] = decode(Buffer.concat(chunks), name).split(/\r?\n/);
  if (line === "") {
    throw new CliFailure(`The ${name} is empty.`);
  }
  return line;
}

function decode(bytes: Buffer, name: string): string {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch (error) {
    if (error instanceof TypeError) {
      throw new CliFailure(`The ${name} is not UTF-8.`, { cause: error });
    }
    throw error;
  }
}
