import { FlowgateError } from "@flowgate/flows/errors";
import { seal, unseal } from "@flowgate/base/seal";
import type { AuditRecord } from "../audit-store.ts";
import type { CredentialKey, CredentialKeys } from "../credential-keys.ts";
import type {
  ListedToken,
  NamedTokenLimits,
  SessionChange,
  StoredToken,
  TokenPage,
  TokenQuery,
  TokenSelector,
} from "../token-store.ts";
import { appendAudit, lockAudit } from "./audit-log.ts";
import { insert, type Query, toPage } from "./query.ts";

type TokenRow = {
  hash: Uint8Array;
  id: string;
  name: string | null;
  username: string;
  password_fingerprint: Uint8Array;
  client_id: string;
  scope: string;
  created_at_ms: number | null;
  expires_at_ms: number;
  session: Uint8Array | null;
};

type ListedRow = TokenRow & { seq: number; last_used_at_ms: number | null };

const columns =
  "hash, id, name, username, password_fingerprint, client_id, scope, created_at_ms, expires_at_ms, session";

/** Returns the encryption context of a session, see `seal`. */
export function sessionContext(hash: Uint8Array): Uint8Array {
  return hash;
}

function openSession(keys: CredentialKeys, hash: Uint8Array, session: Uint8Array): string {
  for (const { sessionBytes } of keys.all()) {
    const text = unseal(sessionBytes, sessionContext(hash), session);
    if (text !== undefined) {
      return text.toString("utf8");
    }
  }
  return "";
}

function toTokenRow(token: StoredToken, key: CredentialKey): TokenRow {
  return {
    hash: token.hash,
    id: token.id,
    name: token.name ?? null,
    username: token.username,
    password_fingerprint: token.passwordFingerprint,
    client_id: token.clientId,
    scope: token.scope,
    created_at_ms: token.createdAtMs ?? null,
    expires_at_ms: token.expiresAtMs,
    session: token.session === undefined ? null : seal(key.sessionBytes, sessionContext(token.hash), token.session),
  };
}

function toToken(row: TokenRow, keys: CredentialKeys): StoredToken {
  return {
    id: row.id,
    hash: row.hash,
    name: row.name ?? undefined,
    username: row.username,
    passwordFingerprint: row.password_fingerprint,
    clientId: row.client_id,
    scope: row.scope,
    createdAtMs: row.created_at_ms ?? undefined,
    expiresAtMs: row.expires_at_ms,
    session: row.session === null ? undefined : openSession(keys, row.hash, row.session),
  };
}

function toListedToken(row: ListedRow, keys: CredentialKeys): ListedToken {
  return { ...toToken(row, keys), lastUsedAtMs: row.last_used_at_ms ?? undefined };
}

export async function findToken(
  query: Query,
  hash: Uint8Array,
  keys: CredentialKeys,
): Promise<StoredToken | undefined> {
  const [row] = await query<TokenRow>(`SELECT ${columns} FROM flowgate.token WHERE hash = $1`, [hash]);
  return row && toToken(row, keys);
}

export async function getToken(query: Query, id: string, keys: CredentialKeys): Promise<StoredToken | undefined> {
  const [row] = await query<TokenRow>(`SELECT ${columns} FROM flowgate.token WHERE id = $1`, [id]);
  return row && toToken(row, keys);
}

export async function listTokens(
  query: Query,
  { limit, nowMs, username, before = Number.MAX_SAFE_INTEGER }: TokenQuery,
  keys: CredentialKeys,
): Promise<TokenPage> {
  const rows = await query<ListedRow>(
    `SELECT seq, ${columns}, last_used_at_ms FROM flowgate.token
     WHERE seq < $1 AND expires_at_ms > $2 AND (CAST($3 AS text) IS NULL OR username = $3)
     ORDER BY seq DESC LIMIT $4`,
    [before, nowMs, username ?? null, limit + 1],
  );
  const { rows: page, next } = toPage(rows, limit);
  return { tokens: page.map((row) => toListedToken(row, keys)), next };
}

type InsertTokenCall = {
  readonly row: TokenRow;
  readonly entry: AuditRecord;
  readonly limits: NamedTokenLimits | undefined;
};

/** Encrypts the data of a session. */
export function toInsertTokenCall(
  token: StoredToken,
  entry: AuditRecord,
  limits: NamedTokenLimits | undefined,
  key: CredentialKey,
): InsertTokenCall {
  return { row: toTokenRow(token, key), entry, limits };
}

export async function insertToken(query: Query, { row, entry, limits }: InsertTokenCall): Promise<void> {
  // Also excludes others that insert.
  const log = await lockAudit(query);
  if (limits !== undefined) {
    await assertBelow(query, row.username, limits);
  }
  await insert(query, "token", row);
  await appendAudit(log, [entry]);
}

/** Rejects with `limit_exceeded` if there must not be another named token. */
async function assertBelow(query: Query, username: string, { perUser, total, nowMs }: NamedTokenLimits): Promise<void> {
  const [counts] = await query<{ total: number; of_user: number }>(
    `SELECT count(*) AS total, count(*) FILTER (WHERE username = $1) AS of_user FROM flowgate.token
     WHERE name IS NOT NULL AND expires_at_ms > $2`,
    [username, nowMs],
  );
  const { total: found = 0, of_user: ofUser = 0 } = counts ?? {};
  if (ofUser >= perUser) {
    throw new FlowgateError(
      "limit_exceeded",
      `token limit reached (${ofUser}, adminAuth.maxTokensPerUser): revoke one first`,
    );
  }
  if (found >= total) {
    throw new FlowgateError(
      "limit_exceeded",
      `token limit of all users reached (${found}, adminAuth.maxTokens): revoke one first`,
    );
  }
}

/** Resolves with the hashes of the removed tokens. */
export async function removeTokens(
  query: Query,
  { selector, entry }: { readonly selector: TokenSelector; readonly entry: AuditRecord },
): Promise<readonly Uint8Array[]> {
  const log = await lockAudit(query);
  // The properties of a selector are named like the columns.
  const [[column, value]] = selector === "all" ? [["1", 1]] : (Object.entries(selector) as [[string, unknown]]);
  const rows = await query<Pick<TokenRow, "hash">>(`DELETE FROM flowgate.token WHERE ${column} = $1 RETURNING hash`, [
    value,
  ]);
  if (rows.length > 0) {
    await appendAudit(log, [{ ...entry, count: rows.length }]);
  }
  return rows.map(({ hash }) => hash);
}

export async function removeExpiredTokens(query: Query, nowMs: number): Promise<void> {
  await query("DELETE FROM flowgate.token WHERE expires_at_ms <= $1", [nowMs]);
}

/** The encrypted session that is to be replaced, and the one in its place. */
type UpdateSessionCall = Pick<SessionChange, "hash"> & { readonly from: Uint8Array; readonly to: Uint8Array };

/** Encrypts a change of a session. Resolves with undefined if the session is another one than it is to be changed from. */
export async function findUpdateSessionCall(
  query: Query,
  { hash, from, to }: SessionChange,
  keys: CredentialKeys,
  key: CredentialKey,
): Promise<UpdateSessionCall | undefined> {
  const [row] = await query<Pick<TokenRow, "session">>("SELECT session FROM flowgate.token WHERE hash = $1", [hash]);
  const session = row?.session ?? undefined;
  return session === undefined || openSession(keys, hash, session) !== from
    ? undefined
    : { hash, from: session, to: seal(key.sessionBytes, sessionContext(hash), to) };
}

/** Resolves with false if the session is another one meanwhile, or was encrypted again. */
export async function updateSession(query: Query, { hash, from, to }: UpdateSessionCall): Promise<boolean> {
  const rows = await query("UPDATE flowgate.token SET session = $3 WHERE hash = $1 AND session = $2 RETURNING id", [
    hash,
    from,
    to,
  ]);
  return rows.length > 0;
}

/** Databases limit the number of parameters. */
const usesAtOnce = 1_000;

/** Sets the times of the last use of tokens by id. Of several replicas, the latest use counts. */
export async function recordTokenUses(query: Query, uses: ReadonlyMap<string, number>): Promise<void> {
  const rest = [...uses];
  while (rest.length > 0) {
    const some = rest.splice(0, usesAtOnce);
    const rows = some.map((_, index) => `($${2 * index + 1}, CAST($${2 * index + 2} AS bigint))`);
    await query(
      `UPDATE flowgate.token SET last_used_at_ms = used.column2 FROM (VALUES ${rows.join(", ")}) AS used
       WHERE token.id = used.column1 AND (last_used_at_ms IS NULL OR last_used_at_ms < used.column2)`,
      some.flat(),
    );
  }
}
