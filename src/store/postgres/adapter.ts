import type { StoreAdapter } from "../store.ts";
import { openDatabase } from "./database.ts";
import { parseLocation } from "./location.ts";
import { openPostgresStore } from "./open-store.ts";
import { toFlowgateError } from "./postgres-error.ts";
import { assertCurrentSchema } from "./schema.ts";
import { verifyAuditLog } from "./verify-audit.ts";

/** A location is the part of a URL after `postgres:`. */
export const postgresAdapter: StoreAdapter = {
  open: (location, { key }) => openPostgresStore({ location, key }),
  async backup() {
    throw new Error("a PostgreSQL database is backed up with PostgreSQL's own tools, such as pg_dump");
  },
  async restore() {
    throw new Error("a PostgreSQL database is restored with PostgreSQL's own tools, such as pg_restore");
  },
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
