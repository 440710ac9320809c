import { FlowgateError } from "../../errors.ts";
import type { FlowStore, TokenStore } from "../store.ts";
import { openDatabase } from "./database.ts";
import { createFlowStore } from "./flow-store.ts";
import { createTokenStore } from "./token-store.ts";

export type SqliteStoreOptions = {
  /** The database's file; its folder is made where there is none. */
  path: string;
  /** 32 bytes, that credentials are sealed with. */
  key: Buffer;
};

/** Both stores in one file. Disposing of the flow store does the same as disposing of the whole. */
export interface SqliteStore extends AsyncDisposable {
  readonly flows: FlowStore;
  readonly tokens: TokenStore;
}

export async function openSqliteStore({ path, key }: SqliteStoreOptions): Promise<SqliteStore> {
  const db = await openDatabase(path);
  const inFlight = new Set<Promise<unknown>>();
  let closed = false;

  /** Keeps the database open until `operation` has ended. */
  async function run<T>(operation: () => Promise<T>): Promise<T> {
    if (closed) {
      throw new FlowgateError("unavailable", "the store is closed");
    }
    const result = operation();
    inFlight.add(result);
    try {
      return await result;
    } finally {
      inFlight.delete(result);
    }
  }

  async function dispose(): Promise<void> {
    closed = true;
    await Promise.allSettled(inFlight);
    if (db.isOpen) {
      db.close();
    }
  }

  try {
    const flows = await createFlowStore(db, key);
    const tokens = createTokenStore(db);
    return {
      flows: {
        active: () => run(() => flows.active()),
        commit: (draft, signal) => run(() => flows.commit(draft, signal)),
        reload: () => run(() => flows.reload()),
        [Symbol.asyncDispose]: dispose,
      },
      tokens: {
        insert: (token) => run(() => tokens.insert(token)),
        find: (hash) => run(() => tokens.find(hash)),
        remove: (hash) => run(() => tokens.remove(hash)),
        removeExpired: (nowMs) => run(() => tokens.removeExpired(nowMs)),
      },
      [Symbol.asyncDispose]: dispose,
    };
  } catch (error) {
    db.close();
    throw error;
  }
}
