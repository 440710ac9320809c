import type { Options } from "../options/parse.ts";
import { backupStore, restoreStore } from "../store/open-store.ts";
import { CliFailure } from "./failure.ts";

/** Copies the store to the file, or the other way, and prints what is left to do. */
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
  return `Backed up to ${file}. The credentials in it are encrypted: keep ${key} too, in another place.\n`;
}

async function restore(file: string, options: Options): Promise<string> {
  const replaced = await restoreStore(file, options);
  const before = replaced === undefined ? "" : ` What was there before is in ${replaced}.`;
  return `Restored ${file}; users have to log in anew.${before}\n`;
}
