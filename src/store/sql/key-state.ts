import { type CredentialKey, type CredentialKeys, type KeyState, wrongSecret } from "../credential-keys.ts";
import { unseal } from "@flowgate/base/seal";
import { credentialContext } from "../credentials.ts";
import type { Query } from "./query.ts";
import type { ContentRow, SummaryRow } from "./revision-row.ts";

/** The only row of the table `credential_key`. The columns with several ids are JSON arrays. */
type KeyRow = {
  /** `KeyState.current`. */
  key_id: string;
  previous: string;
  /** The keys that the process knows that uses the database; empty if several can. */
  known: string;
};

export async function findKeyState(query: Query): Promise<(KeyState & { known: readonly string[] }) | undefined> {
  const [row] = await query<KeyRow>("SELECT key_id, previous, known FROM flowgate.credential_key");
  return (
    row && {
      current: row.key_id,
      previous: JSON.parse(row.previous) as string[],
      known: JSON.parse(row.known) as string[],
    }
  );
}

/** As `findKeyState`. Rejects if the row was removed. */
export async function readKeyState(query: Query): Promise<KeyState & { known: readonly string[] }> {
  const state = await findKeyState(query);
  if (state === undefined) {
    throw new Error("the table credential_key is empty: restore the database from a backup");
  }
  return state;
}

/**
 * The key of a store that was written before it recorded one: the newest revision's, or the configured one if there is
 * none.
 */
export async function findKeyOfStore(query: Query, keys: CredentialKeys): Promise<CredentialKey> {
  const [newest] = await query<Pick<SummaryRow, "rev"> & Pick<ContentRow, "credentials">>(
    "SELECT rev, credentials FROM flowgate.revision JOIN flowgate.revision_content USING (seq) ORDER BY seq DESC LIMIT 1",
  );
  if (newest === undefined) {
    return keys.configured();
  }
  const { rev, credentials } = newest;
  const key = keys.all().find(({ bytes }) => unseal(bytes, credentialContext(rev), credentials) !== undefined);
  if (key === undefined) {
    throw wrongSecret();
  }
  return key;
}

export async function insertKeyState(query: Query, id: string): Promise<void> {
  await query(
    "INSERT INTO flowgate.credential_key (seq, key_id, previous, known) VALUES (1, $1, '[]', '[]') ON CONFLICT DO NOTHING",
    [id],
  );
}

/** Records the keys that the process knows that uses the database, and resolves when others can read it. */
export async function reportKnownKeys(query: Query, ids: readonly string[]): Promise<void> {
  await query("UPDATE flowgate.credential_key SET known = $1", [JSON.stringify(ids)]);
}

/**
 * Makes sure, until the transaction ends, that this is the key of all writes. Rejects if a rotation has replaced it;
 * the error has its own property `replacedBy`, even when it was sent to another thread. Precedes `lockAudit` in all
 * transactions.
 */
export async function assertCurrentKey(query: Query, id: string): Promise<void> {
  const [row] = await query<Pick<KeyRow, "key_id">>("SELECT key_id FROM flowgate.credential_key FOR SHARE");
  if (row !== undefined && row.key_id !== id) {
    throw Object.assign(new Error("the key of the credentials was replaced"), { replacedBy: row.key_id });
  }
}

/** Encrypts with the current key, and writes in a transaction that begins with `assertCurrentKey`: again if a rotation has replaced the key. */
export async function writeSealed<Call, Reply>(
  keys: CredentialKeys,
  encrypt: (key: CredentialKey) => Call | Promise<Call>,
  write: (call: Call, keyId: string) => Promise<Reply>,
): Promise<Reply> {
  for (;;) {
    const key = keys.current();
    const call = await encrypt(key);
    try {
      return await write(call, key.id);
    } catch (error) {
      const replacedBy = error instanceof Error && "replacedBy" in error ? error.replacedBy : undefined;
      if (typeof replacedBy !== "string") {
        throw error;
      }
      keys.use(replacedBy);
    }
  }
}
