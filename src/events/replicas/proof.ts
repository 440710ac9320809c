import { createHmac, hkdfSync, randomBytes, timingSafeEqual } from "node:crypto";
import type { CredentialKeys } from "../../store/credential-keys.ts";

/** Derives the key of calls between replicas from the secret that they share. */
export function deriveReplicaKey(credentialSecret: string): Buffer {
  // The info string separates it from the keys of credentials.
  return Buffer.from(hkdfSync("sha256", credentialSecret, "", "flowgate calls of replicas v1", 32));
}

/**
 * The keys of calls: first the signing key, which all replicas know, then other accepted keys. There is at least one.
 */
export type ReplicaKeys = () => readonly Buffer[];

/** While the secret is replaced, replicas sign with the one that the store names. */
export function createReplicaKeys(keys: Pick<CredentialKeys, "all">): ReplicaKeys {
  const derived = new Map<string, Buffer>();
  return () =>
    keys.all().flatMap(({ secret }) => {
      if (secret === undefined) {
        return [];
      }
      const key = derived.get(secret) ?? deriveReplicaKey(secret);
      derived.set(secret, key);
      return [key];
    });
}

const scheme = "Flowgate-Replica";

/** The time for which a call is accepted, and the maximum difference between clocks. */
const maxAgeMs = 60_000;

/**
 * Returns the Authorization header of a call to the replica with the id `to`. It is of no use for other calls, nor a minute later:
 *
 *     Flowgate-Replica <id of the caller>.<Unix time in ms>.<nonce>.<HMAC-SHA256>
 */
export function formatAuthorization(keys: ReplicaKeys, from: string, to: string, nowMs = Date.now()): string {
  const claim = `${from}.${nowMs}.${randomBytes(16).toString("base64url")}`;
  return `${scheme} ${claim}.${sign(firstOf(keys), `call ${to} ${claim}`)}`;
}

/** Calls that are remembered. Replicas make fewer in the time in which a header is accepted. */
const maxRemembered = 100_000;

/**
 * Returns a function that takes the Authorization header of a call to the replica with the id `to`. It returns the id of the replica that
 * calls; undefined if the header does not prove it, or was used before.
 */
export function createAuthorizationReader(
  keys: ReplicaKeys,
  to: string,
): (authorization: string | null, nowMs?: number) => string | undefined {
  /** The times at which used headers expire, by their signatures. Only signed headers are added. */
  const used = new Map<string, number>();

  return (authorization, nowMs = Date.now()) => {
    const [, claim = "", from = "", time = "", signature = ""] =
      /^Flowgate-Replica (([\w-]{1,64})\.(\d{1,16})\.[\w-]{22})\.([\w-]{43})$/i.exec(authorization ?? "") ?? [];
    const isSigned = keys().some((key) => isEqual(signature, sign(key, `call ${to} ${claim}`)));
    if (!isSigned || Math.abs(nowMs - Number(time)) > maxAgeMs || used.has(signature)) {
      return undefined;
    }
    for (const [oldest, endMs] of used) {
      if (endMs >= nowMs && used.size < maxRemembered) {
        break;
      }
      used.delete(oldest);
    }
    used.set(signature, Number(time) + maxAgeMs);
    return from;
  };
}

/** Proves to the caller that the response is one of a replica. */
export function createProof(keys: ReplicaKeys, authorization: string): string {
  return sign(firstOf(keys), `response ${authorization}`);
}

export function isProof(keys: ReplicaKeys, authorization: string, proof: string): boolean {
  return keys().some((key) => isEqual(proof, sign(key, `response ${authorization}`)));
}

function firstOf(keys: ReplicaKeys): Buffer {
  const [first] = keys();
  if (first === undefined) {
    throw new Error("replicas share no secret");
  }
  return first;
}

function sign(key: Buffer, text: string): string {
  return createHmac("sha256", key).update(text).digest("base64url");
}

function isEqual(one: string, other: string): boolean {
  const [first, second] = [Buffer.from(one), Buffer.from(other)];
  return first.length === second.length && timingSafeEqual(first, second);
}
