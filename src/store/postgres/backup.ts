import { systemOrigin } from "../audit-chain.ts";
import { copyTables } from "../copy/copy-tables.ts";
import { openBackupReader } from "../sqlite/table-reader.ts";
import { openBackupWriter } from "../sqlite/table-writer.ts";
import { tableNames } from "../tables.ts";
import type { Location } from "./location.ts";
import { openTableReader } from "./table-reader.ts";
import { openTableWriter } from "./table-writer.ts";

// Backups have the same form for all kinds of stores, so that each can restore those of the others.

/** Copies the database to a new file, which is durable when the promise resolves and does not exist when it rejects. */
export async function backupStore(location: Location, file: string): Promise<void> {
  await using source = await openTableReader(location, "shared");
  await using destination = await openBackupWriter(file);
  await copyTables(source, destination, {});
}

/** Copies a backup to the database, which must be new. */
export async function restoreStore(
  file: string,
  location: Location,
  readKeys: () => Promise<readonly Buffer[]>,
): Promise<undefined> {
  await using source = await openBackupReader(file);
  await using destination = await openTableWriter(location);
  await copyTables(source, destination, {
    tables: tableNames.filter((table) => table !== "token"),
    keys: await readKeys(),
    entry: { kind: "store_restored", origin: systemOrigin },
  });
}
