import { join } from "node:path";
import { readKey } from "./key.ts";
import type { AuditHead, AuditVerification, Store, StoreAdapter } from "./store.ts";

const loadPostgres = async (): Promise<StoreAdapter> => (await import("./postgres/adapter.ts")).postgresAdapter;

/** Adapters by the scheme of the store's URL. Each is loaded when it is used. */
const adapters: ReadonlyMap<string, () => Promise<StoreAdapter>> = new Map([
  ["sqlite", async () => (await import("./sqlite/adapter.ts")).sqliteAdapter],
  ["postgres", loadPostgres],
  ["postgresql", loadPostgres],
]);

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
  await adapter.backup(location, file);
}

/** Resolves with the path under which the previous data is kept, if there was any. */
export async function restoreStore(file: string, options: StoreOptions): Promise<string | undefined> {
  const { adapter, location } = await findAdapter(options);
  return adapter.restore(file, location);
}

/** Checks the audit log, and that it contains the entry `expected`. */
export async function verifyAudit(options: StoreOptions, expected?: AuditHead): Promise<AuditVerification> {
  const { adapter, location } = await findAdapter(options);
  return adapter.verifyAudit(location, expected);
}

/** Errors never contain the URL, because it may contain a password. */
async function findAdapter({ store, dataDir }: StoreOptions): Promise<{ adapter: StoreAdapter; location: string }> {
  const url = store ?? `sqlite:${join(dataDir, "flowgate.db")}`;
  const colon = url.indexOf(":");
  const load = adapters.get(url.slice(0, colon));
  if (load === undefined) {
    throw new TypeError("store: must be a URL that begins with sqlite: or postgres:");
  }
  return { adapter: await load(), location: url.slice(colon + 1) };
}
