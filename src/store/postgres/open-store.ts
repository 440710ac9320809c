import type { AuditHead, AuditVerification } from "../audit-store.ts";
import { CredentialKeys, createKey } from "../credential-keys.ts";
import { Operations, wrapStore } from "../guard.ts";
import { verifyAudit } from "../sql/audit-verification.ts";
import { assertCurrentKey, findKeyOfStore, findKeyState, insertKeyState, readKeyState } from "../sql/key-state.ts";
import {
  type Access,
  createAuditStore,
  createContextStore,
  createDocumentStore,
  createProposalStore,
  type Write,
  writes,
} from "../sql/stores.ts";
import type { Query } from "../sql/query.ts";
import { type Store, withKeys } from "../store.ts";
import { openChanges } from "./changes.ts";
import { DatabaseCluster } from "./cluster.ts";
import { type Database, openDatabase } from "./database.ts";
import { toFlowgateError, unavailable } from "./errors.ts";
import { createFlowStore, ensureRoot } from "./flow-store.ts";
import { PostgresJournal } from "./journal-store.ts";
import { endpointsOf, parseLocation } from "./location.ts";
import { createLoginAttempts } from "./login-attempts.ts";
import { migrate } from "./schema.ts";
import {
  createSharedDesiredState,
  createSharedModuleStore,
  createSharedSettings,
  createSharedTokenStore,
} from "./shared-stores.ts";

export type PostgresStoreOptions = {
  /** The URL without its scheme. */
  readonly location: string;
  /** The key that encrypts credentials, 32 bytes, or all keys. All replicas must have the same. */
  readonly key: Buffer | CredentialKeys;
};

/**
 * Connections that operations leave to the reading of changes and to the lease, so that many calls can neither delay revocations
 * nor end the lease.
 */
const reservedConnections = 2;

/** The time that an operation waits for others. */
const turnMs = 2_000;

export async function openPostgresStore({ location, key }: PostgresStoreOptions): Promise<Store> {
  await using stack = new AsyncDisposableStack();
  const parsed = parseLocation(location);
  const keys = key instanceof CredentialKeys ? key : new CredentialKeys([createKey(key)]);
  const database = stack.use(await openDatabase(parsed));
  await migrate(database);
  await ensureKeyState(database, keys);
  await ensureRoot(database, keys);
  const changes = stack.use(await openChanges(database));
  const access = createAccess(database);
  // First, so that revocations are noticed also while the others can't process a change, or wait for a commit.
  const tokens = createSharedTokenStore(database, access, changes, keys);
  // Before the others too: they read together the values for this state.
  const desired = await createSharedDesiredState(database, changes);
  const cluster = stack.use(new DatabaseCluster(database, changes, keys));
  await keys.follow({ find: () => readKeyState(database.query), report: (ids) => cluster.reportKeys(ids) });
  changes.onChange(({ keyId }) => keys.use(keyId));
  const operations = new Operations(toFlowgateError);
  const parts = {
    flows: await createFlowStore(database, access, changes, keys),
    proposals: createProposalStore(access, keys),
    modules: createSharedModuleStore(database, access, changes),
    tokens,
    desired,
    audit: createAuditStore(access, (expected) => verifyAuditLog(database, expected)),
    documents: createDocumentStore(access),
    context: createContextStore(access),
    settings: await createSharedSettings(database, access, changes, keys),
    logins: createLoginAttempts(database),
  };
  // Callers who are not authenticated can look up tokens and log in. Many of them must not block the others.
  const max = (parsed.poolSize - reservedConnections) / 2;
  const [forAccess, forOthers] = [new Turns(Math.floor(max)), new Turns(Math.ceil(max))];
  // Before the others: operations in progress need them.
  stack.defer(() => operations.close());
  const resources = stack.move();
  return {
    ...wrapStore(parts, (operation, name) => {
      const turns = /^(tokens|logins)\./.test(name) ? forAccess : forOthers;
      return (...parameters) =>
        operations.run(async () => {
          using _ = await turns.take();
          return await operation(...parameters);
        });
    }),
    openJournal: () => new PostgresJournal(database),
    cluster,
    endpoints: endpointsOf(parsed),
    keys,
    ...withKeys(database.health, keys),
    [Symbol.asyncDispose]: () => resources.disposeAsync(),
  };
}

function createAccess(database: Database): Access {
  const write = (name: keyof typeof writes, argument: unknown, keyId?: string): Promise<unknown> => {
    const operation = writes[name] as (query: Query, argument: unknown) => Promise<unknown>;
    return database.transaction(async (query) => {
      if (keyId !== undefined) {
        await assertCurrentKey(query, keyId);
      }
      return operation(query, argument);
    });
  };
  return { query: database.query, write: write as Write };
}

/** Records the key of the store, if that is new or was written by an older version. */
async function ensureKeyState(database: Database, keys: CredentialKeys): Promise<void> {
  if ((await findKeyState(database.query)) === undefined) {
    const { id } = await findKeyOfStore(database.query, keys);
    await database.transaction((query) => insertKeyState(query, id));
  }
}

/** The number of revisions whose flows are hashed by one statement. */
const revisionsAtOnce = 500;

/** Checks the audit log in one snapshot, without blocking writers. */
export async function verifyAuditLog(database: Database, expected?: AuditHead): Promise<AuditVerification> {
  return database.transaction(async (query) => {
    await query("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY");
    return verifyAudit(query, revisionsAtOnce, expected);
  });
}

/** Limits how many operations run at the same time. Others wait for their turn. */
class Turns {
  readonly #max: number;
  #running = 0;
  readonly #waiting = new Set<() => void>();
  readonly #turn: Disposable = { [Symbol.dispose]: () => this.#end() };

  constructor(max: number) {
    this.#max = max;
  }

  /** Resolves when the caller may begin. Disposing ends its turn. Rejects if it would have to wait for too long. */
  async take(): Promise<Disposable> {
    if (this.#running < this.#max) {
      this.#running += 1;
      return this.#turn;
    }
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    this.#waiting.add(resolve);
    const timer = setTimeout(() => {
      this.#waiting.delete(resolve);
      reject(unavailable("the database is busy: try again"));
    }, turnMs);
    await promise.finally(() => clearTimeout(timer));
    return this.#turn;
  }

  #end(): void {
    const [next] = this.#waiting;
    if (next === undefined) {
      this.#running -= 1;
    } else {
      this.#waiting.delete(next);
      next();
    }
  }
}
