import { hash } from "node:crypto";
import { dirname, join } from "node:path";
import { setImmediate } from "node:timers/promises";
import { isDeepStrictEqual } from "node:util";
import { createListeners } from "@flowgate/base/listeners";
import { programFile } from "../../base/program-file.ts";
import { openThread } from "@flowgate/base/thread";
import type { AuditHead, AuditVerification } from "../audit-store.ts";
import { CredentialKeys, createKey } from "../credential-keys.ts";
import type { FlowStore } from "../flow-store.ts";
import { Operations, wrapStore } from "../guard.ts";
import { verifyAudit } from "../sql/audit-verification.ts";
import { findDesiredState, KnownState } from "../sql/desired-state.ts";
import { findKeyOfStore, findKeyState, readKeyState } from "../sql/key-state.ts";
import { KnownSettings } from "../sql/node-settings.ts";
import {
  createAuditStore,
  createContextStore,
  createDesiredState,
  createDocumentStore,
  createProposalStore,
  createSettingStore,
  createModuleStore,
  createTokenStore,
  type Write,
} from "../sql/stores.ts";
import { type Store, withKeys } from "../store.ts";
import { queryOf } from "./connection.ts";
import { assertExists, connectCommand, storeHint } from "./database-file.ts";
import { checkDatabase, openDatabase, reopenDatabase, reserveLog } from "./database.ts";
import { isInDoubt, storageFailure, toFlowgateError } from "./errors.ts";
import { createFlowStore } from "./flow-store.ts";
import { RecoveringHealth } from "./health.ts";
import { openSqliteJournal } from "./journal-store.ts";
import { createLoginAttempts } from "./login-attempts.ts";
import type { ThreadWrites, WriteCall, WriteThreadData } from "./write-thread.ts";

export type SqliteStoreOptions = {
  /** The database file. It and its directory are created if they are missing. */
  readonly path: string;
  /** The file of the journal. Defaults to `journal.db` beside the database. */
  readonly journalPath?: string;
  /** The key that encrypts credentials, 32 bytes, or all keys. */
  readonly key: Buffer | CredentialKeys;
};

export async function openSqliteStore({
  path,
  journalPath = join(dirname(path), "journal.db"),
  key,
}: SqliteStoreOptions): Promise<Store> {
  await using stack = new AsyncDisposableStack();
  const keys = key instanceof CredentialKeys ? key : new CredentialKeys([createKey(key)]);
  const db = stack.use(openDatabase(path));
  const query = queryOf(db);
  const health = new RecoveringHealth(recover);
  stack.defer(() => health.close());
  const thread = stack.use(
    openThread<WriteCall, unknown>({
      name: "flowgate writes",
      entry: programFile("store/sqlite/write-thread"),
      data: { path } satisfies WriteThreadData,
      onUnexpectedExit: (error) => health.recordError(error),
    }),
  );
  const revoked = createListeners<Uint8Array | undefined>();
  /** True if a commit may have been made that has failed: nothing is written until the database was opened anew. */
  let hasDoubt = false;
  let flows: FlowStore | undefined;
  let known: KnownState | undefined;

  async function recover(): Promise<void> {
    if (!hasDoubt) {
      checkDatabase(db);
      // There may not have been enough space at the start.
      reserveLog(db, path);
      return;
    }
    await thread[Symbol.asyncDispose]();
    if (operations.isClosed()) {
      return;
    }
    reopenDatabase(db, path);
    // The commit may have been made, as well as the removal of tokens.
    await flows?.reload();
    known?.replace(await findDesiredState(query));
    revoked.notify(undefined);
    hasDoubt = false;
  }

  async function call(name: WriteCall["name"], argument: unknown, keyId?: string): Promise<unknown> {
    if (hasDoubt) {
      throw storageFailure();
    }
    return thread.call({ name, argument, keyId });
  }

  const operations = new Operations((error) => {
    // What is refused because of the doubt is not another failure.
    if (!hasDoubt) {
      hasDoubt = isInDoubt(error);
      health.recordError(error);
    }
    // A statement fails in another way while the database can't be opened anew.
    return toFlowgateError(db.isOpen ? error : storageFailure());
  });
  stack.defer(() => operations.close());
  try {
    const write = call as Write<ThreadWrites>;
    if ((await findKeyState(query)) === undefined) {
      await write("insertKeyState", (await findKeyOfStore(query, keys)).id);
    }
    await keys.follow({
      find: () => readKeyState(query),
      async report(ids) {
        // Most starts need not start the thread that writes.
        if (!isDeepStrictEqual((await readKeyState(query)).known, ids)) {
          await write("reportKnownKeys", ids);
        }
      },
    });
    flows = await createFlowStore({ query, write }, keys);
    known = new KnownState(await findDesiredState(query));
    const settings = new KnownSettings(query, keys);
    await settings.read();
    const parts = {
      flows,
      proposals: createProposalStore({ query, write }, keys),
      modules: createModuleStore({ query, write }),
      desired: createDesiredState({ query, write }, known),
      tokens: createTokenStore({ query, write }, revoked, keys),
      audit: createAuditStore({ query, write }, (expected) => verifyAuditLog(path, expected)),
      documents: createDocumentStore({ query, write }),
      context: createContextStore({ query, write }),
      settings: createSettingStore({ query, write }, settings, keys),
      logins: await createLoginAttempts(query, write, (operation) => operations.run(operation)),
    };
    const resources = stack.move();
    return {
      ...wrapStore(
        parts,
        (operation) =>
          (...parameters) =>
            operations.run(() => operation(...parameters)),
      ),
      openJournal: (options) => openSqliteJournal(journalPath, options),
      cluster: undefined,
      endpoints: [],
      keys,
      ...withKeys(health, keys),
      [Symbol.asyncDispose]: () => resources.disposeAsync(),
    };
  } catch (error) {
    throw toFlowgateError(error);
  }
}

/** The number of revisions whose flows are hashed in one turn of the event loop. */
const revisionsAtOnce = 4;

/** Checks the audit log of the database at `path` on a connection of its own, which reads a snapshot. */
export async function verifyAuditLog(path: string, expected?: AuditHead): Promise<AuditVerification> {
  assertExists(path, storeHint);
  // A connection opened as read-only would leave files of its write-ahead log behind, possibly owned by root.
  using db = connectCommand(path);
  db.exec("PRAGMA query_only = ON");
  // As PostgreSQL has them.
  db.function("sha256", { deterministic: true }, (bytes) => hash("sha256", bytes as Uint8Array, "buffer"));
  db.function("encode", { deterministic: true }, (bytes, _format) => Buffer.from(bytes as Uint8Array).toString("hex"));
  const query = queryOf(db);
  db.exec("BEGIN");
  return await verifyAudit(
    async (text, values) => {
      await setImmediate();
      return query(text, values);
    },
    revisionsAtOnce,
    expected,
  );
}
