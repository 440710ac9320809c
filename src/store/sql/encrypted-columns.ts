import { seal, unseal } from "@flowgate/base/seal";
import type { TableName } from "../adapter.ts";
import type { CredentialKey } from "../credential-keys.ts";
import { credentialContext } from "../credentials.ts";
import { nodeSealName } from "./node-credentials.ts";
import { settingSealName } from "./node-settings.ts";
import { sealNameOf } from "./proposal-row.ts";
import { sessionContext } from "./tokens.ts";

/** A column that is encrypted with a key of the credentials. Its table has a column `seq`. Null is not encrypted. */
export type EncryptedColumn = {
  readonly column: string;
  /** The owner of such a value, for operators. */
  readonly noun: string;
  /** The table with the encryption context, in its row with the same `seq`. It is copied before, or is the same. */
  readonly namedBy: TableName;
  /** The column of that table. */
  readonly nameColumn: string;
  /** The context for `seal`, by the value of that column. */
  readonly contextOf: (name: never) => string | Uint8Array;
  readonly bytesOf: (key: CredentialKey) => Buffer;
};

function credentialsOf(
  noun: string,
  [namedBy, nameColumn]: readonly [TableName, string],
  nameOf: (value: string) => string,
  column = "credentials",
): EncryptedColumn {
  const contextOf = (value: string): string => credentialContext(nameOf(value));
  return { column, noun, namedBy, nameColumn, contextOf, bytesOf: ({ bytes }) => bytes };
}

/** All encrypted columns, by table. */
export const encryptedColumns: ReadonlyMap<TableName, EncryptedColumn> = new Map<TableName, EncryptedColumn>([
  ["revision_content", credentialsOf("revision", ["revision", "rev"], (rev) => rev)],
  ["proposal_content", credentialsOf("proposal", ["proposal", "id"], sealNameOf)],
  ["node_credential", credentialsOf("node", ["node_credential", "node_id"], nodeSealName)],
  ["node_setting", credentialsOf("setting", ["node_setting", "name"], settingSealName, "value")],
  [
    "token",
    {
      column: "session",
      noun: "session",
      namedBy: "token",
      nameColumn: "hash",
      contextOf: (hash: Uint8Array) => sessionContext(hash),
      bytesOf: ({ sessionBytes }) => sessionBytes,
    },
  ],
]);

/**
 * Encrypts a value with the key `to`. Returns undefined if it is encrypted with that already, and `unreadable` if none of the keys is
 * the one of the value. `name` is as in `EncryptedColumn.nameColumn`.
 */
export function encryptAgain(
  { contextOf, bytesOf }: EncryptedColumn,
  { name, value }: { readonly name: unknown; readonly value: Uint8Array },
  to: CredentialKey,
  others: readonly CredentialKey[],
): Buffer | "unreadable" | undefined {
  const context = contextOf(name as never);
  if (unseal(bytesOf(to), context, value) !== undefined) {
    return undefined;
  }
  for (const key of others) {
    const text = unseal(bytesOf(key), context, value);
    if (text !== undefined) {
      return seal(bytesOf(to), context, text);
    }
  }
  return "unreadable";
}
