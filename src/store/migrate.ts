import { systemOrigin } from "./audit-chain.ts";
import { type CopyOptions, type CopyResult, copyTables } from "./copy/copy-tables.ts";
import { readKnownKeys } from "./key.ts";
import { findAdapter, type StoreOptions } from "./open-store.ts";

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
