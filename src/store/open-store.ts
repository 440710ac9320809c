import { join } from "node:path";
import type { BackupFiles, StoreAdapter } from "./adapter.ts";
import { type AuditHead, type AuditVerification, systemOrigin } from "./audit-store.ts";
import { type CredentialKey, CredentialKeys, deriveKey, type KeyState } from "./credential-keys.ts";
import { createNextKey, readKeys, readNextKey, readOrCreateKeys, replaceKeyFile, watchKeyFiles } from "./key-files.ts";
import { createOwnerSetter } from "./owner.ts";
import type { Rotation, RotationOptions } from "./rotation.ts";
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
  /** Contains the credential key too, if there is no `credentialSecret`. */
  readonly dataDir: string;
  readonly credentialSecret?: string | undefined;
  /** Secrets that credentials may still be encrypted with. */
  readonly previousCredentialSecrets?: readonly string[] | undefined;
};

/** Opens the store. The caller must have locked `dataDir` with `lockDataDir`. */
export async function openStore(options: StoreOptions): Promise<Store> {
  const { adapter, location } = await findAdapter(options);
  await using stack = new AsyncDisposableStack();
  const keys = new CredentialKeys(await readOrCreateKeys(options));
  const store = stack.use(await adapter.open(location, { keys, dataDir: options.dataDir }));
  if (options.credentialSecret === undefined) {
    stack.use(await watchKeyFiles(keys, options));
  }
  const resources = stack.move();
  return { ...store, [Symbol.asyncDispose]: () => resources.disposeAsync() };
}

export async function backupStore(options: StoreOptions, file: string): Promise<void> {
  const { adapter, location } = await findAdapter(options);
  await adapter.backup(location, file, files);
}

/** Resolves with the path under which the previous data is kept, if there was any. */
export async function restoreStore(file: string, options: StoreOptions): Promise<string | undefined> {
  const { adapter, location } = await findAdapter(options);
  return adapter.restore(file, location, { readKeys: () => readKeys(options), files });
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
} & Pick<StoreOptions, "dataDir" | "credentialSecret" | "previousCredentialSecrets">;

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
  previousCredentialSecrets,
  ...options
}: MigrateOptions): Promise<CopyResult> {
  const source = await findAdapter({ store: from, dataDir });
  const destination = await findAdapter({ store: to, dataDir });
  const keys = await readKeys({ credentialSecret, previousCredentialSecrets, dataDir });
  await using reader = await name("source", source.adapter.openReader(source.location));
  await using writer = await name("destination", destination.adapter.openWriter(destination.location));
  const detail = `${source.scheme} to ${destination.scheme}`;
  return await copyTables(reader, writer, {
    ...options,
    keys,
    entry: { kind: "store_migrated", origin: systemOrigin, detail },
  });
}

export type { Rotation, RotationProgress } from "./rotation.ts";

export type RotateOptions = StoreOptions &
  Pick<RotationOptions, "waitMs" | "onProgress" | "signal"> & {
    /**
     * Replaces `credentialSecret` in the configuration of the services, and resolves with the new one. Called unless an earlier rotation
     * has to be continued.
     */
    readonly replaceSecret?: (() => Promise<string>) | undefined;
  };

/**
 * Encrypts everything in the store with `credentialSecret`; without one, with a new key, which takes the place of
 * `<dataDir>/credential.key`. Services may use the store. Resolves also with the name under which the previous key is kept. Can be
 * repeated after an interruption.
 */
export async function rotateStore({
  waitMs,
  onProgress,
  signal,
  replaceSecret,
  ...options
}: RotateOptions): Promise<Rotation & { readonly keptKey: string | undefined }> {
  const { adapter, location } = await findAdapter(options);
  const { dataDir, credentialSecret } = options;
  const keys = new CredentialKeys(await readKeys(options));
  /** The new key in a file of its own, if there is one. */
  let next = credentialSecret === undefined ? await readNextKey(dataDir) : undefined;

  async function chooseKey({ current, previous }: KeyState): Promise<CredentialKey> {
    const own = keys.configured();
    const hasOwn = credentialSecret !== undefined || own.secret === undefined;
    const isContinued = next !== undefined || (hasOwn && (own.id !== current || previous.length > 0));
    if (replaceSecret !== undefined && !isContinued) {
      const key = deriveKey(await replaceSecret());
      await keys.add([key]);
      return key;
    }
    // Without a secret, values encrypted with another key than the data directory's, such as a backup from before a
    // rotation, are encrypted with the data directory's key.
    if (credentialSecret !== undefined || (next === undefined && isContinued)) {
      return own;
    }
    next ??= await createNextKey(dataDir, createOwnerSetter(dataDir, join(dataDir, "credential.key")));
    await keys.add([next]);
    return next;
  }

  const rotation = await adapter.rotate(location, { keys, chooseKey, waitMs, onProgress, signal });
  return { ...rotation, keptKey: next && (await replaceKeyFile(dataDir)) };
}

/** Adds to an error which of the stores can't be used. */
async function name<T>(side: string, opening: Promise<T>): Promise<T> {
  try {
    return await opening;
  } catch (cause) {
    throw new Error(`the ${side} can't be used: ${cause instanceof Error ? cause.message : String(cause)}`, { cause });
  }
}
