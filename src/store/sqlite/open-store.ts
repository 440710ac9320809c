import { extname } from "node:path";
import { FlowgateError } from "../../errors.ts";
import { createThread } from "../../thread.ts";
import type { Store } from "../store.ts";
import type { CommitCall, CommitData, CommitReply } from "./commit-thread.ts";
import { openDatabase, touch } from "./database.ts";
import { createFlowStore } from "./flow-store.ts";
import { createHealth } from "./health.ts";
import { toRefusal } from "../sqlite-error.ts";
import { createTokenStore } from "./token-store.ts";

export type SqliteStoreOptions = {
  /** The database's file; its folder is made where there is none. */
  readonly path: string;
  /** 32 bytes, that credentials are sealed with. */
  readonly key: Buffer;
};

export async function openSqliteStore({ path, key }: SqliteStoreOptions): Promise<Store> {
  const db = openDatabase(path);
  const health = createHealth(() => touch(db));
  const committer = createThread<CommitCall, CommitReply>({
    name: "flowgate commits",
    // The name ends as this file's does: .ts as it stands, .js when it is built.
    entry: new URL(`./commit-thread${extname(import.meta.url)}`, import.meta.url),
    data: { path } satisfies CommitData,
    died: (error) => health.failed(error),
  });
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
    } catch (error) {
      health.failed(error);
      throw toRefusal(error);
    } finally {
      inFlight.delete(result);
    }
  }

  try {
    const flows = await createFlowStore(db, key, committer);
    const tokens = createTokenStore(db);
    return {
      flows: {
        ...flows,
        find: (rev) => run(() => flows.find(rev)),
        list: (page) => run(() => flows.list(page)),
        commit: (draft, signal) => run(() => flows.commit(draft, signal)),
        reload: () => run(() => flows.reload()),
      },
      tokens: {
        ...tokens,
        insert: (token) => run(() => tokens.insert(token)),
        find: (hash) => run(() => tokens.find(hash)),
        remove: (hash) => run(() => tokens.remove(hash)),
        removeExpired: (nowMs) => run(() => tokens.removeExpired(nowMs)),
      },
      health: health.health,
      onHealthChange: health.onHealthChange,
      async [Symbol.asyncDispose]() {
        if (closed) {
          return;
        }
        closed = true;
        await Promise.allSettled(inFlight);
        await committer[Symbol.asyncDispose]();
        health.close();
        db.close();
      },
    };
  } catch (error) {
    db.close();
    throw toRefusal(error);
  }
}
