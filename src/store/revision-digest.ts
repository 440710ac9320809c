import { hash } from "node:crypto";
import type { AuditEntry, AuditVerification } from "./audit-store.ts";
import { toPortable } from "./portable-text.ts";
import type { SummaryRow } from "./revision-row.ts";

/**
 * The digest of a revision in its audit entry: the SHA-256 of its fields, a period, and the SHA-256 of its flows as they are stored,
 * both in hexadecimal. The fields are hashed as the UTF-8 encoding of a JSON array without spaces; absent ones are null. Message, pin
 * and outcome are not part of it, since they may change. Nor are the credentials: they are encrypted again when a store is migrated,
 * and their encryption detects changes. Must never change.
 */
export function digestRevision(row: SummaryRow, flowsHash: string): string {
  const fields = [
    row.seq,
    row.rev,
    row.parent,
    row.committed_at_ms,
    row.deployed_by,
    row.token_id,
    row.token_name,
    row.client_address,
    row.protocol,
    row.request_id,
    row.deployment_type,
    row.cause,
    row.restored_rev,
    row.node_count,
    row.size_bytes,
  ];
  // Text as it is read from either database.
  const stored = fields.map((value) => toPortable(typeof value === "string" ? value.toWellFormed() : value));
  return `${hash("sha256", JSON.stringify(stored))}.${flowsHash}`;
}

export function hashFlows(flows: Uint8Array): string {
  return hash("sha256", flows);
}

/** The `detail` of an entry about removed revisions. */
export function formatRemoved(revs: readonly string[]): string {
  return revs.join(" ");
}

/** Compares the revisions of a store with its audit log. */
export interface RevisionCheck {
  /** Must be called with all entries, oldest first. */
  addEntry(entry: AuditEntry): void;
  /** Must be called with all revisions. `flowsHash` is the SHA-256 of the flows as they are stored. */
  addRevision(row: SummaryRow, flowsHash: string): void;
  /** The number of revisions whose entries have a digest, and the first inconsistency; undefined: there is none. */
  end(): { readonly revisions: number; readonly problem: string | undefined };
}

export function createRevisionCheck(): RevisionCheck {
  /** The entries about the deployments of revisions. Those of older versions have no digest. */
  const deployments = new Map<string, AuditEntry>();
  const revisions = new Map<string, { readonly row: SummaryRow; readonly digest: string }>();

  function compare(rev: string, entry: AuditEntry): string | undefined {
    const revision = revisions.get(rev);
    if (revision === undefined) {
      return `revision ${rev}, which entry ${entry.seq} records, was removed, and not by the retention`;
    }
    return revision.digest === entry.digest
      ? undefined
      : `revision ${rev} was changed: ${describeChange(revision.row, revision.digest, entry)} not as entry ${entry.seq} records`;
  }

  return {
    addEntry(entry) {
      const { kind, subject = "", detail = "" } = entry;
      // A reload is recorded as a deployment of a revision that has an entry already.
      if (kind === "deployment" && !deployments.has(subject)) {
        deployments.set(subject, entry);
      }
      if (kind === "revisions_pruned") {
        for (const rev of detail.split(" ")) {
          deployments.delete(rev);
        }
      }
    },

    addRevision(row, flowsHash) {
      revisions.set(row.rev, { row, digest: digestRevision(row, flowsHash) });
    },

    end() {
      const bound = [...deployments].filter(([, { digest }]) => digest !== undefined);
      const differing = bound.map(([rev, entry]) => compare(rev, entry)).find((problem) => problem !== undefined);
      const oldestSeq = Math.min(...bound.map(([rev]) => revisions.get(rev)?.row.seq ?? Infinity));
      const inserted = [...revisions.values()].find(({ row }) => row.seq > oldestSeq && !deployments.has(row.rev));
      return {
        revisions: bound.length,
        problem: differing ?? (inserted && `revision ${inserted.row.rev} has no entry, although an earlier one has`),
      };
    },
  };
}

/** The verification of a log, whose revisions are compared with it if its chain is intact. */
export function endVerification(chain: Omit<AuditVerification, "revisions">, check: RevisionCheck): AuditVerification {
  const { revisions, problem } = check.end();
  return chain.problem === undefined ? { ...chain, revisions, problem } : { ...chain, revisions: 0 };
}

/** What of a revision differs from its entry, as the subject and verb of a sentence. */
function describeChange(
  row: SummaryRow,
  digest: string,
  { origin, detail, digest: expected = "" }: AuditEntry,
): string {
  const [fields, flows] = digest.split(".");
  const [expectedFields, expectedFlows] = expected.split(".");
  const compared: readonly (readonly [name: string, found: string | null, recorded: string | undefined])[] = [
    ["user", row.deployed_by, origin.by],
    ["token", row.token_id, origin.token?.id],
    ["name of the token", row.token_name, origin.token?.name],
    ["client address", row.client_address, origin.address],
    ["protocol", row.protocol, origin.protocol],
    ["request id", row.request_id, origin.requestId],
    ["type or cause", describeDeployment(row), detail],
  ];
  const names = compared.filter(([, found, recorded]) => (found ?? undefined) !== recorded).map(([name]) => name);
  if (fields !== expectedFields && names.length === 0) {
    names.push("time, parent or another field");
  }
  if (flows !== expectedFlows) {
    names.push("flows");
  }
  const last = names.pop() ?? "";
  return names.length === 0
    ? `its ${last} ${last === "flows" ? "are" : "is"}`
    : `its ${names.join(", ")} and ${last} are`;
}

/** The `detail` of the entry about a deployment. */
export function describeDeployment({ cause, deployment_type: type }: SummaryRow): string {
  return cause === "deployment" ? type : `${cause}, ${type}`;
}
