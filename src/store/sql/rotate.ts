import { setTimeout } from "node:timers/promises";
import { FlowgateError } from "@flowgate/flows/errors";
import type { TableName } from "../adapter.ts";
import { type AuditKind, systemOrigin } from "../audit-store.ts";
import { type CredentialKey, missingSecret } from "../credential-keys.ts";
import type { Rotation, RotationOptions, RotationProgress } from "../rotation.ts";
import { appendAudit, lockAudit } from "./audit-log.ts";
import { type EncryptedColumn, encryptAgain, encryptedColumns } from "./encrypted-columns.ts";
import { readKeyState } from "./key-state.ts";
import type { Query } from "./query.ts";

/** A rotation's access to a database that services use at the same time. */
export interface RotationAccess {
  readonly query: Query;
  transaction<T>(work: (query: Query) => Promise<T>): Promise<T>;
  /**
   * Resolves with the names of the services that use the database and do not know the key. If the list is empty, no
   * such service starts before `release`.
   */
  findUnaware(query: Query, keyId: string): Promise<readonly string[]>;
  release(): void;
}

type Progress = (progress: RotationProgress) => Promise<void>;

/** See `RotationOptions`. */
export async function rotate(
  access: RotationAccess,
  { keys, chooseKey, waitMs, onProgress, signal }: RotationOptions,
): Promise<Rotation> {
  const progress: Progress = async (reached) => {
    await onProgress?.(reached);
    signal?.throwIfAborted();
  };
  const state = await readKeyState(access.query);
  const missing = [state.current, ...state.previous].filter((id) => !keys.ids().includes(id));
  if (missing.length > 0) {
    throw new Error(missingSecret);
  }
  const to = await chooseKey(state);
  await progress({ phase: "begun" });
  if (state.current !== to.id) {
    await switchKey(access, to, { waitMs, progress, signal });
    await progress({ phase: "switched" });
  }
  const others = keys.all().filter(({ id }) => id !== to.id);
  const encryptIn = (phase: "encrypting" | "checking"): Promise<Rotation> =>
    encryptAll(access, to, others, (done, total) => progress({ phase, done, total }));
  const first = await encryptIn("encrypting");
  let last = first;
  // Nothing can have been encrypted with another key meanwhile: this is a check.
  do {
    last = await encryptIn("checking");
  } while (last.encrypted > 0);
  await complete(access, to, { encrypted: first.encrypted, counts: last.counts });
  await progress({ phase: "complete" });
  return { ...last, encrypted: first.encrypted };
}

const pollMs = 250;

/** Makes all services write with the key, when all of them know it. */
async function switchKey(
  access: RotationAccess,
  to: CredentialKey,
  { waitMs, progress, signal }: Pick<RotationOptions, "waitMs" | "signal"> & { readonly progress: Progress },
): Promise<void> {
  const untilMs = performance.now() + waitMs;
  try {
    for (;;) {
      const services = await retry(() => access.transaction((query) => trySwitch(access, query, to)));
      if (services.length === 0) {
        return;
      }
      await progress({ phase: "waiting", services });
      if (performance.now() > untilMs) {
        throw new Error(
          `${services.join(", ")} ${services.length === 1 ? "does" : "do"} not know the new secret, and nothing was changed: put it ` +
            "into the configuration of all services as credentialSecret, with the present one in previousCredentialSecrets; or stop them",
        );
      }
      await setTimeout(pollMs, undefined, { signal });
    }
  } finally {
    access.release();
  }
}

/** Resolves with the services that do not know the key; if there are any, nothing is changed. */
async function trySwitch(access: RotationAccess, query: Query, to: CredentialKey): Promise<readonly string[]> {
  // Waits for transactions that write with the previous key, and excludes further ones.
  await query("SELECT key_id FROM flowgate.credential_key FOR UPDATE");
  const { current, previous } = await readKeyState(query);
  const services = current === to.id ? [] : await access.findUnaware(query, to.id);
  if (current !== to.id && services.length === 0) {
    const ids = new Set([...previous, current]);
    ids.delete(to.id);
    await query("UPDATE flowgate.credential_key SET key_id = $1, previous = $2", [to.id, JSON.stringify([...ids])]);
    await record(query, "credential_rotation_begun", "new values are encrypted with the new key");
  }
  return services;
}

/** Encrypts all values that are encrypted with another key. What is added meanwhile is encrypted with the new one. */
async function encryptAll(
  access: RotationAccess,
  to: CredentialKey,
  others: readonly CredentialKey[],
  progress: (done: number, total: number) => Promise<void>,
): Promise<Rotation> {
  const found = new Map<TableName, { count: number; last: number | null }>();
  for (const [table, { column }] of encryptedColumns) {
    const text = `SELECT count(*) AS count, max(seq) AS last FROM flowgate.${table} WHERE ${column} IS NOT NULL`;
    const [row = { count: 0, last: null }] = await retry(() =>
      access.query<{ count: number; last: number | null }>(text),
    );
    found.set(table, row);
  }
  const total = found.values().reduce((sum, { count }) => sum + count, 0);
  const counts = new Map<string, number>();
  const unreadable: string[] = [];
  let encrypted = 0;
  let done = 0;
  for (const [table, encryptedColumn] of encryptedColumns) {
    const { noun } = encryptedColumn;
    let count = 0;
    for await (const value of readValues(access, table, encryptedColumn, found.get(table)?.last ?? 0)) {
      const again = encryptAgain(encryptedColumn, value, to, others);
      if (again !== "unreadable") {
        count += 1;
      } else if (table !== "token") {
        unreadable.push(`${noun} ${String(value.name)}`);
      }
      if (again instanceof Buffer) {
        encrypted += await retry(() => replaceValue(access, table, encryptedColumn, { ...value, again }));
      }
      done += 1;
      await progress(done, total);
    }
    counts.set(`${noun}s`, count);
  }
  return { counts, encrypted, unreadable };
}

type Value = { readonly seq: number; readonly name: unknown; readonly value: Uint8Array };

const readAtOnce = 50;

async function* readValues(
  { query }: RotationAccess,
  table: TableName,
  { column, namedBy, nameColumn }: EncryptedColumn,
  last: number,
): AsyncGenerator<Value> {
  let after = 0;
  let rows: Value[];
  do {
    rows = await retry(() =>
      query<Value>(
        `SELECT held.seq AS seq, named.${nameColumn} AS name, held.${column} AS value
         FROM flowgate.${table} AS held JOIN flowgate.${namedBy} AS named ON named.seq = held.seq
         WHERE held.seq > $1 AND held.seq <= $2 AND held.${column} IS NOT NULL ORDER BY held.seq LIMIT $3`,
        [after, last, readAtOnce],
      ),
    );
    yield* rows;
    after = rows.at(-1)?.seq ?? after;
  } while (rows.length === readAtOnce);
}

/**
 * Resolves with the number of values that were replaced. One that has changed meanwhile is encrypted with the new key. Each is replaced in a
 * transaction of its own, so that neither this nor a service waits for a row while it holds another one.
 */
async function replaceValue(
  access: RotationAccess,
  table: TableName,
  { column }: EncryptedColumn,
  { seq, value, again }: Value & { readonly again: Buffer },
): Promise<number> {
  const text = `UPDATE flowgate.${table} SET ${column} = $1 WHERE seq = $2 AND ${column} = $3 RETURNING seq`;
  return (await access.transaction((query) => query(text, [again, seq, value]))).length;
}

/** Records that the previous keys are not needed any more. */
async function complete(
  access: RotationAccess,
  to: CredentialKey,
  { encrypted, counts }: Pick<Rotation, "encrypted" | "counts">,
): Promise<void> {
  await retry(() =>
    access.transaction(async (query) => {
      await query("SELECT key_id FROM flowgate.credential_key FOR UPDATE");
      const { current, previous } = await readKeyState(query);
      if (current !== to.id) {
        throw new Error("another rotation has begun meanwhile, with another secret: run this again when it has ended");
      }
      if (previous.length > 0 || encrypted > 0) {
        await query("UPDATE flowgate.credential_key SET previous = '[]'");
        const detail = Array.from(counts, ([plural, count]) => `${plural}: ${count}`).join(", ");
        await record(query, "credentials_rotated", detail);
      }
    }),
  );
}

async function record(query: Query, kind: AuditKind, detail: string): Promise<void> {
  await appendAudit(await lockAudit(query), [{ kind, origin: systemOrigin, detail }]);
}

/** The number of attempts after a failure of the database, and the time between them. */
const attempts = 30;
const retryMs = 1_000;

async function retry<T>(operation: () => Promise<T>): Promise<T> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await operation();
    } catch (error) {
      if (attempt === attempts || !(error instanceof FlowgateError && error.reason === "unavailable")) {
        throw error;
      }
      await setTimeout(retryMs);
    }
  }
}
