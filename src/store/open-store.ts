import { join } from "node:path";
import { readKey } from "./key.ts";
import type { Store, StoreAdapter } from "./store.ts";

/** By the scheme of the store's URL. Loaded when it is used. */
const adapters: ReadonlyMap<string, () => Promise<StoreAdapter>> = new Map([
  ["sqlite", async () => (await import("./sqlite/adapter.ts")).sqliteAdapter],
]);

export type StoreOptions = {
  /** The store's URL, as `sqlite:/var/lib/flowgate/flowgate.db`; undefined: the database in `dataDir`. */
  readonly store?: string | undefined;
  /** Has the key of credentials too, where there is no `credentialSecret`. */
  readonly dataDir: string;
  readonly credentialSecret?: string | undefined;
};

/** The caller has locked `dataDir` (lock.ts). */
export async function openStore(options: StoreOptions): Promise<Store> {
  const { adapter, location } = await findAdapter(options);
  return adapter.open(location, { key: await readKey(options), dataDir: options.dataDir });
}

export async function backupStore(options: StoreOptions, file: string): Promise<void> {
  const { adapter, location } = await findAdapter(options);
  await adapter.backup(location, file);
}

/** Gives the path of what was there before, if there was something. */
export async function restoreStore(file: string, options: StoreOptions): Promise<string | undefined> {
  const { adapter, location } = await findAdapter(options);
  return adapter.restore(file, location);
}

/** An error never repeats the URL: it may hold a password. */
async function findAdapter({ store, dataDir }: StoreOptions): Promise<{ adapter: StoreAdapter; location: string }> {
  const url = store ?? `sqlite:${join(dataDir, "flowgate.db")}`;
  const colon = url.indexOf(":");
  const load = adapters.get(url.slice(0, colon));
  if (load === undefined) {
    throw new TypeError(`store: must be a URL that begins with ${[...adapters.keys()].join(": or ")}:`);
  }
  return { adapter: await load(), location: url.slice(colon + 1) };
}
