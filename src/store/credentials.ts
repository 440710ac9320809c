import { headerBytes, seal, sealVersion, unseal } from "@flowgate/base/seal";
import type { CredentialSets } from "@flowgate/flows";
import { type CredentialKey, type CredentialKeys, wrongSecret } from "./credential-keys.ts";

/** Encrypts the credentials of a revision, in the format of `seal`, for the context of that revision. */
export function sealCredentials(key: CredentialKey, rev: string, sets: CredentialSets): Buffer {
  // Entries instead of objects, because "__proto__" is a valid node id.
  const entries = Array.from(sets, ([id, set]) => [id, [...set]]);
  return sealText(key, rev, JSON.stringify(entries));
}

/** Encrypts text with credentials. `name` identifies the owner: a `rev`, or a name that contains a space. */
export function sealText(key: CredentialKey, name: string, text: string): Buffer {
  return seal(key.bytes, credentialContext(name), text);
}

/** Decrypts the credentials of a revision. Throws if none of the keys is the one of the bytes, or they are damaged. */
export function openCredentials(keys: CredentialKeys, rev: string, sealed: Uint8Array): CredentialSets {
  const entries = JSON.parse(openText(keys, rev, sealed)) as [string, [string, string][]][];
  return new Map(entries.map(([id, set]) => [id, new Map(set)]));
}

/** Decrypts what `sealText` has encrypted. Throws like `openCredentials`. */
export function openText(keys: CredentialKeys, name: string, sealed: Uint8Array): string {
  assertReadable(name, sealed);
  for (const { bytes } of keys.all()) {
    const text = unseal(bytes, credentialContext(name), sealed);
    if (text !== undefined) {
      return text.toString("utf8");
    }
  }
  throw wrongSecret();
}

/** The encryption context of credentials, see `seal`. */
export function credentialContext(name: string): string {
  return `flowgate credentials ${sealVersion} ${name}`;
}

/** Throws if the bytes can't be decrypted with any key. `name` is as in `sealText`. */
function assertReadable(name: string, sealed: Uint8Array): void {
  if (sealed.length < headerBytes) {
    throw new Error(`The stored credentials of revision ${name} are damaged: restore the database from a backup.`);
  }
  if (sealed[0] !== sealVersion) {
    throw new Error(
      `The stored credentials of revision ${name} were encrypted by a newer version of Flowgate: use that version.`,
    );
  }
}
