import type { StoreAdapter } from "../adapter.ts";
import { backupStore, restoreStore } from "./backup.ts";
import { openDatabase } from "./database.ts";
import { parseLocation } from "./location.ts";
import { openPostgresStore } from "./open-store.ts";
import { toFlowgateError } from "./postgres-error.ts";
import { assertCurrentSchema } from "./schema.ts";
import { openTableReader } from "./table-reader.ts";
import { openTableWriter } from "./table-writer.ts";
import { verifyAuditLog } from "./verify-audit.ts";

/** A location is the part of a URL after `postgres:`. */
export const postgresAdapter: StoreAdapter = {
  open: (location, { key }) => openPostgresStore({ location, key }),
  backup: async (location, file) => backupStore(parseLocation(location), file),
  restore: async (file, location, readKeys) => restoreStore(file, parseLocation(location), readKeys),
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
};
