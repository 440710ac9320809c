import { createHmac, hkdfSync, randomBytes, timingSafeEqual } from "node:crypto";

/** Derives the key of calls between replicas from the secret that they share. */
export function deriveReplicaKey(credentialSecret: string): Buffer {
  // The info string separates it from the keys of credentials.
  return Buffer.from(hkdfSync("sha256", credentialSecret, "", "flowgate calls of replicas v1", 32));
}

const scheme = "Flowgate-Replica";

/** How long a call is accepted, and by how much clocks may differ. */
const maxAgeMs = 60_000;

/**
 * Returns the Authorization header of a call to the replica with the id `to`. It is of no use for other calls, nor a minute later:
 *
 *     Flowgate-Replica <id of the caller>.<Unix time in ms>.<nonce>.<HMAC-SHA256>
 */
export function formatAuthorization(key: Buffer, from: string, to: string, nowMs = Date.now()): string {
  const claim = `${from}.${nowMs}.${randomBytes(16).toString("base64url")}`;
  return `${scheme} ${claim}.${sign(key, `call ${to} ${claim}`)}`;
}

/** Calls that are remembered. Replicas make fewer in the time in which a header is accepted. */
const maxRemembered = 100_000;

/**
 * Returns a function that takes the Authorization header of a call to the replica with the id `to`. It returns the id of the replica that
 * calls; undefined if the header does not prove it, or was used before.
 */
export function createAuthorizationReader(
  key: Buffer,
  to: string,
): (authorization: string | null, nowMs?: number) => string | undefined {
  /** When the headers that were used are refused anyway, by their signatures. Only headers that are signed are added. */
  const used = new Map<string, number>();

  return (authorization, nowMs = Date.now()) => {
    const [, claim = "", from = "", time = "", signature = ""] =
      /^Flowgate-Replica (([\w-]{1,64})\.(\d{1,16})\.[\w-]{22})\.([\w-]{43})$/i.exec(authorization ?? "") ?? [];
    const isSigned = isEqual(signature, sign(key, `call ${to} ${claim}`));
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
export function createProof(key: Buffer, authorization: string): string {
  return sign(key, `response ${authorization}`);
}

export function isProof(key: Buffer, authorization: string, proof: string): boolean {
  return isEqual(proof, createProof(key, authorization));
}

function sign(key: Buffer, text: string): string {
  return createHmac("sha256", key).update(text).digest("base64url");
}

function isEqual(one: string, other: string): boolean {
  const [first, second] = [Buffer.from(one), Buffer.from(other)];
  return first.length === second.length && timingSafeEqual(first, second);
}
