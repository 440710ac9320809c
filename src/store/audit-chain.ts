import { hash } from "node:crypto";
import type { AuditEntry, AuditHead, AuditVerification } from "./audit-store.ts";
import type { Origin } from "./origin.ts";

/** The origin of events that no request causes. */
export const systemOrigin: Origin = { by: undefined, address: undefined, protocol: undefined, requestId: undefined };

/** The head of an empty log. */
export const emptyHead: AuditHead = { seq: 0, hash: "" };

/**
 * The hash of an entry: SHA-256, in hexadecimal, of the UTF-8 encoding of a JSON array without spaces, which contains the hash
 * of the previous entry ("" for the first one) and the fields of this one; absent fields are null. If the entry has a token or a
 * digest, id and name of the token and the digest follow. Must never change.
 */
export function hashEntry(previousHash: string, entry: Omit<AuditEntry, "hash">): string {
  const { seq, timeMs, kind, origin, subject, detail, count, digest } = entry;
  const { by, token, address, protocol, requestId } = origin;
  const fields = [previousHash, seq, timeMs, kind, by, address, protocol, requestId, subject, detail, count];
  if (token !== undefined || digest !== undefined) {
    fields.push(token?.id, token?.name, digest);
  }
  // JSON.stringify writes null for undefined items.
  return hash("sha256", JSON.stringify(fields));
}

/** The text form of a head, as commands print it, and as the `subject` of `audit_pruned` entries. */
export function formatHead({ seq, hash }: AuditHead): string {
  return `${seq}:${hash}`;
}

/** Undefined: the text has another form. */
export function parseHead(text: string): AuditHead | undefined {
  const match = /^([1-9]\d{0,14}):([\da-f]{64})$/.exec(text);
  return match === null ? undefined : { seq: Number(match[1]), hash: match[2] ?? "" };
}

/** Checks a chain entry by entry. */
export interface ChainCheck {
  /** Returns false after the first inconsistency, when no more entries need to be added. */
  add(entry: AuditEntry): boolean;
  /** `head` is the recorded head of the log, without which removed entries at its end would not be noticed. */
  end(head: AuditHead): Omit<AuditVerification, "revisions">;
}

/** The chain starts after the removed entry `pruned`. `expected` is an entry that it must contain. */
export function createChainCheck(pruned: AuditHead, expected: AuditHead | undefined): ChainCheck {
  let last = pruned;
  let entries = 0;
  let problem = expected === undefined ? undefined : compare(expected, pruned);

  function check(entry: AuditEntry): string | undefined {
    if (entry.seq !== last.seq + 1) {
      return `entry ${last.seq + 1} is missing, entry ${entry.seq} follows entry ${last.seq}`;
    }
    if (hashEntry(last.hash, entry) !== entry.hash) {
      return `entry ${entry.seq} was changed, or is not the one that followed entry ${last.seq}`;
    }
    return expected === undefined ? undefined : compare(expected, entry);
  }

  return {
    add(entry) {
      problem ??= check(entry);
      if (problem !== undefined) {
        return false;
      }
      last = entry;
      entries += 1;
      return true;
    },
    end(head) {
      if (last.seq < head.seq) {
        problem ??= `entry ${last.seq + 1} is missing, the last one is ${last.seq}, but entry ${head.seq} was written`;
      } else if (last.hash !== head.hash) {
        problem ??= `entry ${last.seq} is not the last one that was written`;
      }
      if (expected !== undefined && expected.seq > last.seq) {
        problem ??= `entry ${expected.seq} is missing, the last one is ${last.seq}`;
      }
      if (expected !== undefined && expected.seq < pruned.seq) {
        problem ??= `entry ${expected.seq} can't be compared, since entries up to ${pruned.seq} were removed by the retention`;
      }
      return { entries, head: { seq: last.seq, hash: last.hash }, problem };
    },
  };
}

function compare(expected: AuditHead, { seq, hash }: AuditHead): string | undefined {
  return expected.seq === seq && expected.hash !== hash ? `entry ${seq} has another hash than expected` : undefined;
}
