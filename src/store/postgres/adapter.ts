import { type BackupFiles, type RestoreOptions, type StoreAdapter, tableNames } from "../adapter.ts";
import { InDoubt, openDatabase } from "./database.ts";
import { parseLocation, type Location } from "./location.ts";
import { openPostgresStore, verifyAuditLog } from "./open-store.ts";
import { toFlowgateError } from "./errors.ts";
import { assertCurrentSchema } from "./schema.ts";
import { openTableReader, openTableWriter } from "./tables.ts";
import { systemOrigin } from "../audit-store.ts";
import { copyTables } from "../sql/copy-tables.ts";
import { rotate } from "../sql/rotate.ts";
import type { Rotation, RotationOptions } from "../rotation.ts";
import { findUnawareReplicas } from "./cluster.ts";

/** A location is the part of a URL after `postgres:`. */
export const postgresAdapter: StoreAdapter = {
  open: (location, { keys: key }) => openPostgresStore({ location, key }),
  backup: async (location, file, files) => backupStore(parseLocation(location), file, files),
  restore: async (file, location, { readKeys, files }) =>
    restoreStore(file, parseLocation(location), { readKeys, files }),
  openReader: async (location) => openTableReader(parseLocation(location), "exclusive"),
  openWriter: async (location) => openTableWriter(parseLocation(location)),
  async verifyAudit(location, expected) {
    await using database = await openDatabase(parseLocation(location));
    await assertCurrentSchema(database);
    try {
      return await verifyAuditLog(database, expected);
    } catch (error) {
      throw toFlowgateError(error);
    }
  },
  rotate: (location, options) => rotateStore(parseLocation(location), options),
};

/** Copies the database to a new file, which is durable when the promise resolves and does not exist when it rejects. */
async function backupStore(location: Location, file: string, files: BackupFiles): Promise<void> {
  await using source = await openTableReader(location, "shared");
  await using destination = await files.openWriter(file);
  await copyTables(source, destination, {});
}

/** Copies a backup to the database, which must be new. */
async function restoreStore(file: string, location: Location, { readKeys, files }: RestoreOptions): Promise<undefined> {
  await using source = await files.openReader(file);
  await using destination = await openTableWriter(location);
  await copyTables(source, destination, {
    tables: tableNames.filter((table) => table !== "token"),
    keys: await readKeys(),
    entry: { kind: "store_restored", origin: systemOrigin },
  });
}

/** Replicas can use the database meanwhile. */
async function rotateStore(location: Location, options: RotationOptions): Promise<Rotation> {
  await using database = await openDatabase(location);
  await assertCurrentSchema(database);
  const translated = async <T>(operation: () => Promise<T>): Promise<T> => {
    try {
      return await operation();
    } catch (error) {
      throw toFlowgateError(error instanceof InDoubt ? error.cause : error);
    }
  };
  return await rotate(
    {
      query: (...statement) => translated(() => database.query(...statement)),
      transaction: (work) => translated(() => database.transaction(work)),
      findUnaware: findUnawareReplicas,
      release() {},
    },
    options,
  );
}
