import { hashPassword } from "../../auth/passwords.ts";
import { askSecrets } from "./ask-secrets.ts";
import { CliFailure } from "../failure.ts";

/** Prints only the hash on stdout, so that the output can be redirected. */
export async function hashPasswordCommand(): Promise<void> {
  const password = process.stdin.isTTY ? await askTwice() : await readLine(process.stdin);
  if (password === "") {
    throw new CliFailure("The password is empty.");
  }
  process.stdout.write(`${await hashPassword(password)}\n`);
}

async function askTwice(): Promise<string> {
  const [password = "", again] = await askSecrets(["Password: ", "Again: "]);
  if (password !== again) {
    throw new CliFailure("The passwords do not match.");
  }
  return password;
}

async function readLine(input: AsyncIterable<Buffer>): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of input) {
    chunks.push(chunk);
    if (chunk.includes("\n")) {
      break;
    }
  }
  try {
    const [line = ""] = new TextDecoder("utf-8", { fatal: true }).decode(Buffer.concat(chunks)).split(/\r?\n/);
    return line;
  } catch (error) {
    if (error instanceof TypeError) {
      throw new CliFailure("The password is not UTF-8.");
    }
    throw error;
  }
}
