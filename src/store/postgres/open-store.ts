import type { Store } from "../store.ts";
import { createAuditStore } from "./audit-store.ts";
import { openChanges } from "./changes.ts";
import { createCluster } from "./cluster.ts";
import { openDatabase } from "./database.ts";
import { createFlowStore } from "./flow-store.ts";
import { endpointsOf, parseLocation } from "./location.ts";
import { createLoginAttempts } from "./login-attempts.ts";
import { toFlowgateError, unavailable } from "./errors.ts";
import { insertRoot } from "./revision-writes.ts";
import { migrate } from "./schema.ts";
import { createTokenStore } from "./token-store.ts";
import { createTurns, type Turns } from "./turns.ts";

export type PostgresStoreOptions = {
  /** The URL without its scheme. */
  readonly location: string;
  /** The key that encrypts credentials, 32 bytes. All replicas must have the same. */
  readonly key: Buffer;
};

/**
 * Connections that operations leave to the reading of changes and to the lease, so that many calls can neither delay revocations
 * nor end the lease.
 */
const reservedConnections = 2;

/** How long an operation waits for others. */
const turnMs = 2_000;

export async function openPostgresStore({ location, key }: PostgresStoreOptions): Promise<Store> {
  await using stack = new AsyncDisposableStack();
  const parsed = parseLocation(location);
  const database = stack.use(await openDatabase(parsed));
  await migrate(database);
  await insertRoot(database, key);
  const changes = stack.use(await openChanges(database));
  // First, so that revocations are noticed also while the others can't process a change, or wait for a commit.
  const tokens = createTokenStore(database, changes);
  const cluster = stack.use(createCluster(database, changes));
  const operations = createOperations();
  // Callers who are not authenticated can look up tokens and log in. Many of them must not block the others.
  const max = (parsed.poolSize - reservedConnections) / 2;
  const [forAccess, forOthers] = [createTurns(Math.floor(max), turnMs), createTurns(Math.ceil(max), turnMs)];
  const flows = await createFlowStore(database, changes, key);
  const store = {
    flows: operations.guard(flows, forOthers, ["active", "onRevision"]),
    tokens: operations.guard(tokens, forAccess, ["onRevoked", "isCurrent"]),
    audit: operations.guard(createAuditStore(database), forOthers),
    logins: operations.guard(createLoginAttempts(database), forAccess),
    cluster,
    endpoints: endpointsOf(parsed),
    health: () => database.health(),
    onHealthChange: (listener: () => void) => database.onHealthChange(listener),
  };
  // Before the others: operations in progress need them.
  stack.defer(() => operations.end());
  const resources = stack.move();
  return { ...store, [Symbol.asyncDispose]: () => resources.disposeAsync() };
}

/** Keeps the store open until its operations have settled, and converts their errors. */
function createOperations() {
  const inProgress = new Set<Promise<unknown>>();
  let isClosed = false;

  async function inTurn(turns: Turns, operation: () => Promise<unknown>): Promise<unknown> {
    using _ = await turns.take();
    return await operation();
  }

  async function run(turns: Turns, operation: () => Promise<unknown>): Promise<unknown> {
    if (isClosed) {
      throw unavailable("the store is closed");
    }
    const result = inTurn(turns, operation);
    inProgress.add(result);
    try {
      return await result;
    } catch (error) {
      throw toFlowgateError(error);
    } finally {
      inProgress.delete(result);
    }
  }

  return {
    /** Returns an object with the same methods. Those in `synchronous` are not changed. */
    guard<T extends object>(object: T, turns: Turns, synchronous: readonly (keyof T & string)[] = []): T {
      const methods = Object.entries(object).map(
        ([name, method]: [string, (...args: unknown[]) => Promise<unknown>]) => [
          name,
          (synchronous as readonly string[]).includes(name)
            ? method
            : (...args: unknown[]) => run(turns, () => method(...args)),
        ],
      );
      return Object.fromEntries(methods) as T;
    },
    async end(): Promise<void> {
      isClosed = true;
      await Promise.allSettled(inProgress);
    },
  };
}
