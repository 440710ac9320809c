import { hashPassword } from "../auth/passwords.ts";
import { CliFailure } from "@flowgate/cli";
import { askSecret, readSecretLine } from "@flowgate/cli/output";

/** Prints only the hash on stdout, so that the output can be redirected. */
export async function hashPasswordCommand(): Promise<void> {
  const password = process.stdin.isTTY ? await askTwice() : await readSecretLine(process.stdin, "password");
  process.stdout.write(`${await hashPassword(password)}\n`);
}

async function askTwice(): Promise<string> {
  const password = await askSecret("Password");
  if (password === "") {
    throw new CliFailure("The password is empty.");
  }
  if (password !== (await askSecret("Again"))) {
    throw new CliFailure("The passwords do not match.");
  }
  return password;
}
