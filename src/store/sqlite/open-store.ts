import { extname } from "node:path";
import { FlowgateError } from "../../errors.ts";
import { createThread } from "../../thread.ts";
import type { Store } from "../store.ts";
import { createAuditStore } from "./audit-store.ts";
import { checkDatabase, openDatabase } from "./database.ts";
import { createFlowStore } from "./flow-store.ts";
import { createHealth } from "./health.ts";
import { createLoginAttempts } from "./login-attempts.ts";
import { toFlowgateError } from "../sqlite-error.ts";
import { createTokenStore } from "./token-store.ts";
import type { WriteThreadData } from "./write-thread.ts";
import { createWriter, type WriteCall } from "./writer.ts";

export type SqliteStoreOptions = {
  /** The database file. It and its directory are created if they are missing. */
  readonly path: string;
  /** The key that encrypts credentials, 32 bytes. */
  readonly key: Buffer;
};

export async function openSqliteStore({ path, key }: SqliteStoreOptions): Promise<Store> {
  const db = openDatabase(path);
  const health = createHealth(() => checkDatabase(db));
  const thread = createThread<WriteCall, unknown>({
    name: "flowgate writes",
    // The extension is .ts in the sources and .js in the build.
    entry: new URL(`./write-thread${extname(import.meta.url)}`, import.meta.url),
    data: { path } satisfies WriteThreadData,
    onUnexpectedExit: (error) => health.recordError(error),
  });
  const inFlight = new Set<Promise<unknown>>();
  let closed = false;

  /** Keeps the database open until the operation has settled, and converts its errors. */
  async function run<T>(operation: () => Promise<T>): Promise<T> {
    if (closed) {
      throw new FlowgateError("unavailable", "the store is closed");
    }
    const result = operation();
    inFlight.add(result);
    try {
      return await result;
    } catch (error) {
      health.recordError(error);
      throw toFlowgateError(error);
    } finally {
      inFlight.delete(result);
    }
  }

  try {
    const writer = createWriter(thread);
    const flows = await createFlowStore(db, key, writer);
    const tokens = createTokenStore(db, writer);
    const audit = createAuditStore(db, path, writer);
    return {
      flows: {
        ...flows,
        find: (rev) => run(() => flows.find(rev)),
        findEntry: (rev) => run(() => flows.findEntry(rev)),
        update: (rev, change, entry) => run(() => flows.update(rev, change, entry)),
        prune: (retention) => run(() => flows.prune(retention)),
        list: (page) => run(() => flows.list(page)),
        commit: (draft, signal) => run(() => flows.commit(draft, signal)),
        reload: () => run(() => flows.reload()),
      },
      tokens: {
        ...tokens,
        insert: (token, entry) => run(() => tokens.insert(token, entry)),
        find: (hash) => run(() => tokens.find(hash)),
        get: (id) => run(() => tokens.get(id)),
        list: (query) => run(() => tokens.list(query)),
        remove: (selector, entry) => run(() => tokens.remove(selector, entry)),
        removeExpired: (nowMs) => run(() => tokens.removeExpired(nowMs)),
        recordUses: (uses) => run(() => tokens.recordUses(uses)),
      },
      audit: {
        append: (records) => run(() => audit.append(records)),
        list: (query) => run(() => audit.list(query)),
        verify: (expected) => run(() => audit.verify(expected)),
        prune: (beforeMs) => run(() => audit.prune(beforeMs)),
      },
      logins: createLoginAttempts(db, writer, run),
      cluster: undefined,
      health: health.health,
      onHealthChange: health.onHealthChange,
      async [Symbol.asyncDispose]() {
        if (closed) {
          return;
        }
        closed = true;
        await Promise.allSettled(inFlight);
        await thread[Symbol.asyncDispose]();
        health.close();
        db.close();
      },
    };
  } catch (error) {
    db.close();
    throw toFlowgateError(error);
  }
}
