import type { AuditEntry, AuditHead, AuditVerification } from "../audit-store.ts";
import { hashEntry } from "./audit-log.ts";
import { describeDeployment, digestRevision, type SummaryRow } from "./revision-row.ts";

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
