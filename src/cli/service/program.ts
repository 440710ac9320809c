import type { migrateStore } from "../../store/migrate.ts";
import type { verifyAudit } from "../../store/open-store.ts";
import type { copyStore } from "./copy-store.ts";
import type { start } from "./serve.ts";

/** What the commands need of the program, which is either an npm package or a single-file executable. */
export interface Program {
  readonly version: () => string;
  /** Loads the service. Only `serve` calls it, so that the other commands are fast. */
  readonly openGateway: Parameters<typeof start>[1];
  /** Loads the database. */
  readonly copyStore: typeof copyStore;
  /** Loads the databases. */
  readonly migrateStore: typeof migrateStore;
  /** Loads the database. */
  readonly verifyAudit: typeof verifyAudit;
  /** Called with the data directory before the service is loaded. */
  readonly beforeLoad?: (dataDir: string) => void;
}
