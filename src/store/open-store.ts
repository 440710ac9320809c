import { join } from "node:path";
import type { BackupFiles, StoreAdapter } from "./adapter.ts";
import { type AuditHead, type AuditVerification, systemOrigin } from "./audit-store.ts";
import { readKey, readKnownKeys } from "./credentials.ts";
import type { Store } from "./store.ts";
import { type CopyOptions, type CopyResult, copyTables } from "./sql/copy-tables.ts";

const loadPostgres = async (): Promise<StoreAdapter> => (await import("./postgres/adapter.ts")).postgresAdapter;

/** Adapters by the scheme of the store's URL. Each is loaded when it is used. */
const adapters: ReadonlyMap<string, () => Promise<StoreAdapter>> = new Map([
  ["sqlite", async () => (await import("./sqlite/adapter.ts")).sqliteAdapter],
  ["postgres", loadPostgres],
  ["postgresql", loadPostgres],
]);

const files: BackupFiles = {
  openReader: async (file) => (await import("./sqlite/tables.ts")).openBackupReader(file),
  openWriter: async (file) => (await import("./sqlite/tables.ts")).openBackupWriter(file),
};

export type StoreOptions = {
  /** The store's URL, such as `sqlite:/var/lib/flowgate/flowgate.db`. Defaults to a SQLite database in `dataDir`. */
  readonly store?: string | undefined;
  /** Also contains the key of the credentials if there is no `credentialSecret`. */
  readonly dataDir: string;
  readonly credentialSecret?: string | undefined;
};

/** Opens the store. The caller must have locked `dataDir` with `lockDataDir`. */
export async function openStore(options: StoreOptions): Promise<Store> {
  const { adapter, location } = await findAdapter(options);
  return adapter.open(location, { key: await readKey(options), dataDir: options.dataDir });
}

/** Copies all revisions to a new file. */
export async function backupStore(options: StoreOptions, file: string): Promise<void> {
  const { adapter, location } = await findAdapter(options);
  await adapter.backup(location, file, files);
}

/** Resolves with the path under which the previous data is kept, if there was any. */
export async function restoreStore(file: string, options: StoreOptions): Promise<string | undefined> {
  const { adapter, location } = await findAdapter(options);
  return adapter.restore(file, location, { readKeys: () => readKnownKeys(options), files });
}

/** Checks the audit log, and that it contains the entry `expected`. */
export async function verifyAudit(options: StoreOptions, expected?: AuditHead): Promise<AuditVerification> {
  const { adapter, location } = await findAdapter(options);
  return adapter.verifyAudit(location, expected);
}

/** Errors never contain the URL, because it may contain a password. */
export async function findAdapter({
  store,
  dataDir,
}: Pick<StoreOptions, "store" | "dataDir">): Promise<{ adapter: StoreAdapter; scheme: string; location: string }> {
  const url = store ?? `sqlite:${join(dataDir, "flowgate.db")}`;
  const colon = url.indexOf(":");
  const scheme = url.slice(0, colon);
  const load = adapters.get(scheme);
  if (load === undefined) {
    throw new TypeError("store: must be a URL that begins with sqlite: or postgres:");
  }
  return { adapter: await load(), scheme, location: url.slice(colon + 1) };
}

export type { CopyProgress, CopyResult } from "./sql/copy-tables.ts";

export type MigrateOptions = Pick<CopyOptions, "onProgress" | "signal"> & {
  /** The URLs of the stores, as `StoreOptions.store`. */
  readonly from: string | undefined;
  readonly to: string | undefined;
} & Pick<StoreOptions, "dataDir" | "credentialSecret">;

/**
 * Copies all data to a new store, of the same or another kind, and appends an audit entry that records it. No service may use the
 * stores. The source is not changed.
 *
 * At the destination, the credentials are encrypted with `credentialSecret`, or with the key in `dataDir` if there is none. At the
 * source, either may have been used.
 */
export async function migrateStore({
  from,
  to,
  dataDir,
  credentialSecret,
  ...options
}: MigrateOptions): Promise<CopyResult> {
  const source = await findAdapter({ store: from, dataDir });
  const destination = await findAdapter({ store: to, dataDir });
  const keys = await readKnownKeys({ credentialSecret, dataDir });
  await using reader = await name("source", source.adapter.openReader(source.location));
  await using writer = await name("destination", destination.adapter.openWriter(destination.location));
  const detail = `${source.scheme} to ${destination.scheme}`;
  return await copyTables(reader, writer, {
    ...options,
    keys,
    entry: { kind: "store_migrated", origin: systemOrigin, detail },
  });
}

/** Adds to an error which of the stores can't be used. */
async function name<T>(side: string, opening: Promise<T>): Promise<T> {
  try {
    return await opening;
  } catch (cause) {
    throw new Error(`the ${side} can't be used: ${cause instanceof Error ? cause.message : String(cause)}`, { cause });
  }
}
