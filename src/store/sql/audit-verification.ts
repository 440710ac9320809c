import type { AuditEntry, AuditHead, AuditVerification } from "../audit-store.ts";
import { type AuditRow, hashEntry, readHead, readPruned, toAuditEntry } from "./audit-log.ts";
import type { Query } from "./query.ts";
import { describeDeployment, digestRevision, type SummaryRow } from "./revision-row.ts";

const entriesAtOnce = 500;

/**
 * Checks the audit log as `AuditStore.verify` does. `query` must read one snapshot. `revisionsAtOnce` is the number of revisions
 * whose flows one statement hashes.
 */
export async function verifyAudit(
  query: Query,
  revisionsAtOnce: number,
  expected: AuditHead | undefined,
): Promise<AuditVerification> {
  const check = new AuditCheck(await readPruned(query), expected);
  const entries = readBatches<AuditRow>(
    query,
    "SELECT * FROM flowgate.audit WHERE seq > $1 ORDER BY seq LIMIT $2",
    entriesAtOnce,
  );
  for await (const row of entries) {
    if (!check.addEntry(toAuditEntry(row))) {
      break;
    }
  }
  const revisions = readBatches<SummaryRow & { readonly flows_hash: string }>(
    query,
    `SELECT revision.*, encode(sha256(flows), 'hex') AS flows_hash
     FROM flowgate.revision JOIN flowgate.revision_content USING (seq) WHERE seq > $1 ORDER BY seq LIMIT $2`,
    revisionsAtOnce,
  );
  for await (const { flows_hash, ...row } of revisions) {
    check.addRevision(row, flows_hash);
  }
  return check.end(await readHead(query));
}

/** Reads the rows of a statement whose parameters are the `seq` after which they begin, and the number of rows. */
async function* readBatches<Row extends { readonly seq: number }>(
  query: Query,
  text: string,
  size: number,
): AsyncGenerator<Row> {
  let after = 0;
  let rows: Row[];
  do {
    rows = await query<Row>(text, [after, size]);
    yield* rows;
    after = rows.at(-1)?.seq ?? after;
  } while (rows.length === size);
}

/** Checks the chain of an audit log entry by entry, and compares the revisions with it. */
export class AuditCheck {
  readonly #pruned: AuditHead;
  readonly #expected: AuditHead | undefined;
  #last: AuditHead;
  #entries = 0;
  #problem: string | undefined;
  /** The entries about the deployments of revisions. Entries of older versions have no digest. */
  readonly #deployments = new Map<string, AuditEntry>();
  readonly #revisions = new Map<string, { readonly row: SummaryRow; readonly digest: string }>();

  /** The chain starts after the removed entry `pruned`. `expected` is an entry that it must contain. */
  constructor(pruned: AuditHead, expected: AuditHead | undefined) {
    this.#pruned = pruned;
    this.#expected = expected;
    this.#last = pruned;
    this.#problem = this.#compare(pruned);
  }

  /** Must be called with all entries, oldest first, until it returns false, after the first inconsistency. */
  addEntry(entry: AuditEntry): boolean {
    this.#problem ??= this.#checkChain(entry);
    if (this.#problem !== undefined) {
      return false;
    }
    this.#last = entry;
    this.#entries += 1;
    const { kind, subject = "", detail = "" } = entry;
    // A reload is recorded as a deployment of a revision that has an entry already.
    if (kind === "deployment" && !this.#deployments.has(subject)) {
      this.#deployments.set(subject, entry);
    }
    if (kind === "revisions_pruned") {
      for (const rev of detail.split(" ")) {
        this.#deployments.delete(rev);
      }
    }
    return true;
  }

  /** Must be called with all revisions. `flowsHash` is the SHA-256 of the flows as they are stored. */
  addRevision(row: SummaryRow, flowsHash: string): void {
    this.#revisions.set(row.rev, { row, digest: digestRevision(row, flowsHash) });
  }

  /** `head` is the recorded head of the log, without which removed entries at its end would not be noticed. */
  end(head: AuditHead): AuditVerification {
    const { seq, hash } = this.#last;
    const verification = { entries: this.#entries, head: { seq, hash } };
    const problem = this.#problem ?? this.#checkEnd(head);
    if (problem !== undefined) {
      return { ...verification, revisions: 0, problem };
    }
    const recorded = [...this.#deployments].filter(([, { digest }]) => digest !== undefined);
    return { ...verification, revisions: recorded.length, problem: this.#checkRevisions(recorded) };
  }

  #checkChain(entry: AuditEntry): string | undefined {
    const last = this.#last;
    if (entry.seq !== last.seq + 1) {
      return `entry ${last.seq + 1} is missing, entry ${entry.seq} follows entry ${last.seq}`;
    }
    if (hashEntry(last.hash, entry) !== entry.hash) {
      return `entry ${entry.seq} was changed, or is not the one that followed entry ${last.seq}`;
    }
    return this.#compare(entry);
  }

  #compare({ seq, hash }: AuditHead): string | undefined {
    return this.#expected?.seq === seq && this.#expected.hash !== hash
      ? `entry ${seq} has another hash than expected`
      : undefined;
  }

  #checkEnd(head: AuditHead): string | undefined {
    const { seq, hash } = this.#last;
    const expectedSeq = this.#expected?.seq;
    if (seq < head.seq) {
      return `entry ${seq + 1} is missing, the last one is ${seq}, but entry ${head.seq} was written`;
    }
    if (hash !== head.hash) {
      return `entry ${seq} is not the last one that was written`;
    }
    if (expectedSeq !== undefined && expectedSeq > seq) {
      return `entry ${expectedSeq} is missing, the last one is ${seq}`;
    }
    if (expectedSeq !== undefined && expectedSeq < this.#pruned.seq) {
      return `entry ${expectedSeq} can't be compared, since entries up to ${this.#pruned.seq} were removed by the retention`;
    }
    return undefined;
  }

  /** `recorded` are the entries with a digest, by the `rev` of the revision. */
  #checkRevisions(recorded: readonly [rev: string, entry: AuditEntry][]): string | undefined {
    for (const [rev, entry] of recorded) {
      const revision = this.#revisions.get(rev);
      if (revision === undefined) {
        return `revision ${rev}, which entry ${entry.seq} records, was removed, and not by the retention`;
      }
      if (revision.digest !== entry.digest) {
        return `revision ${rev} was changed: ${describeChange(revision.row, revision.digest, entry)} not as entry ${entry.seq} records`;
      }
    }
    const oldestSeq = Math.min(...recorded.map(([rev]) => this.#revisions.get(rev)?.row.seq ?? Infinity));
    const inserted = [...this.#revisions.values()].find(
      ({ row }) => row.seq > oldestSeq && !this.#deployments.has(row.rev),
    );
    return inserted && `revision ${inserted.row.rev} has no entry, although an earlier one has`;
  }
}

/** Describes the differences between a revision and its audit entry, as the subject and verb of a sentence. */
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
