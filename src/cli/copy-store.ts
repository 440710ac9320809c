import type { Options } from "../options/parse.ts";
import { backupStore, restoreStore } from "../store/open-store.ts";
import { CliFailure } from "@flowgate/cli";

/** Backs up the store to a file, or restores it from one, and prints the remaining steps. */
export async function copyStore(kind: "backup" | "restore", file: string, options: Options): Promise<void> {
  try {
    process.stdout.write(kind === "backup" ? await backUp(file, options) : await restore(file, options));
  } catch (error) {
    throw new CliFailure(`The ${kind} failed: ${error instanceof Error ? error.message : String(error)}`);
  }
}

async function backUp(file: string, options: Options): Promise<string> {
  await backupStore(options, file);
  const { credentialSecret, dataDir } = options;
  const key = credentialSecret === undefined ? `${dataDir}/credential.key` : "credentialSecret";
  return `Backed up to ${file}. Its credentials are encrypted: back up ${key} too, in another place.\n`;
}

async function restore(file: string, options: Options): Promise<string> {
  const replaced = await restoreStore(file, options);
  const previous = replaced === undefined ? "" : ` The previous store is in ${replaced}.`;
  return `Restored ${file}; users have to log in again.${previous}\n`;
}
