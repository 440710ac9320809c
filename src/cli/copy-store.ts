import type { Options } from "../options/parse.ts";
import { backupStore, restoreStore } from "../store/sqlite/backup.ts";
import { CliFailure } from "./failure.ts";

/** Copies the store of the data directory to the file, or the other way, and tells what is left to do. */
export async function copyStore(kind: "backup" | "restore", file: string, options: Options): Promise<void> {
  try {
    process.stdout.write(kind === "backup" ? await backUp(file, options) : await restore(file, options));
  } catch (error) {
    throw new CliFailure(`The ${kind} failed: ${error instanceof Error ? error.message : String(error)}`);
  }
}

async function backUp(file: string, { dataDir, credentialSecret }: Options): Promise<string> {
  await backupStore(dataDir, file);
  const key = credentialSecret === undefined ? `${dataDir}/credential.key` : "credentialSecret";
  return `Backed up to ${file}. The credentials in it are encrypted: keep ${key} too, in another place.\n`;
}

async function restore(file: string, { dataDir }: Options): Promise<string> {
  const replaced = await restoreStore(file, dataDir);
  const before = replaced === undefined ? "" : ` What was there before is in ${replaced}.`;
  return `Restored ${file} to ${dataDir}; users have to log in anew.${before}\n`;
}
