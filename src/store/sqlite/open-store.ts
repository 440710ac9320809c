import { FlowgateError } from "../../errors.ts";
import { programFile } from "../../base/program-file.ts";
import { openThread } from "../../base/thread.ts";
import { createListeners } from "../../base/listeners.ts";
import type { FlowStore } from "../flow-store.ts";
import type { Store } from "../store.ts";
import { createAuditStore } from "./audit-store.ts";
import { checkDatabase, openDatabase, reopenDatabase, reserveLog } from "./database.ts";
import { createFlowStore } from "./flow-store.ts";
import { createHealth } from "./health.ts";
import { createLoginAttempts } from "./login-attempts.ts";
import { isInDoubt, storageFailure, toFlowgateError } from "./errors.ts";
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
  const health = createHealth(recover);
  const revoked = createListeners<Uint8Array | undefined>();
  const thread = openThread<WriteCall, unknown>({
    name: "flowgate writes",
    entry: programFile("store/sqlite/write-thread"),
    data: { path } satisfies WriteThreadData,
    onUnexpectedExit: (error) => health.recordError(error),
  });
  const inFlight = new Set<Promise<unknown>>();
  let closed = false;
  /** Whether a commit may have been made that has failed: nothing is written until the database was opened anew. */
  let hasDoubt = false;
  let flows: FlowStore | undefined;

  async function recover(): Promise<void> {
    if (!hasDoubt) {
      checkDatabase(db);
      // There may not have been enough space at the start.
      reserveLog(db, path);
      return;
    }
    await thread[Symbol.asyncDispose]();
    if (closed) {
      return;
    }
    reopenDatabase(db, path);
    // The commit may have been made, as well as the removal of tokens.
    await flows?.reload();
    revoked.notify(undefined);
    hasDoubt = false;
  }

  async function write(call: WriteCall): Promise<unknown> {
    if (hasDoubt) {
      throw storageFailure();
    }
    return thread.call(call);
  }

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
      // What is refused because of the doubt is not another failure.
      if (!hasDoubt) {
        hasDoubt = isInDoubt(error);
        health.recordError(error);
      }
      // A statement fails in another way while the database can't be opened anew.
      throw toFlowgateError(db.isOpen ? error : storageFailure());
    } finally {
      inFlight.delete(result);
    }
  }

  try {
    const writer = createWriter({ call: write });
    const revisions = await createFlowStore(db, key, writer);
    flows = revisions;
    const tokens = createTokenStore(db, writer, revoked);
    const audit = createAuditStore(db, path, writer);
    return {
      flows: {
        ...revisions,
        find: (rev) => run(() => revisions.find(rev)),
        findEntry: (rev) => run(() => revisions.findEntry(rev)),
        update: (...call) => run(() => revisions.update(...call)),
        prune: (retention) => run(() => revisions.prune(retention)),
        findRepeated: (by, idempotencyKey) => run(() => revisions.findRepeated(by, idempotencyKey)),
        list: (page) => run(() => revisions.list(page)),
        commit: (draft, signal) => run(() => revisions.commit(draft, signal)),
        reload: () => run(() => revisions.reload()),
      },
      tokens: {
        ...tokens,
        insert: (...call) => run(() => tokens.insert(...call)),
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
        prune: (maxAgeMs) => run(() => audit.prune(maxAgeMs)),
      },
      logins: createLoginAttempts(db, writer, run),
      cluster: undefined,
      endpoints: [],
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
