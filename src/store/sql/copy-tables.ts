import { createHash, type Hash } from "node:crypto";
import { type Row, type TableName, tableNames, type TableReader, type TableWriter } from "../adapter.ts";
import { type AuditHead, type AuditRecord, emptyHead, parseHead } from "../audit-store.ts";
import { type CredentialKey, CredentialKeys, missingSecret } from "../credential-keys.ts";
import { openCredentials } from "../credentials.ts";
import { type AuditRow, readHead, toAuditEntry, toAuditRow, writeHead } from "./audit-log.ts";
import { AuditCheck } from "./audit-verification.ts";
import { encryptAgain, encryptedColumns } from "./encrypted-columns.ts";
import { insertRows, type Query, toPortable } from "./query.ts";
import { type ContentRow, hashFlows, type SummaryRow } from "./revision-row.ts";

export type CopyOptions = {
  /** Defaults to all. */
  readonly tables?: readonly TableName[];
  /**
   * Credentials and sessions are encrypted with the first of these keys at the destination, and with any of them at the source.
   * Absent: they are copied unchanged.
   */
  readonly keys?: readonly CredentialKey[];
  /** Written after the copied audit entries. Absent: the log is copied unchanged. */
  readonly entry?: AuditRecord;
  readonly onProgress?: ((progress: CopyProgress) => void) | undefined;
  /** Its reason is thrown, and nothing is copied. */
  readonly signal?: AbortSignal | undefined;
};

/** `done` and `total` are numbers of rows. */
export type CopyProgress = { readonly phase: "copying" | "checking"; readonly done: number; readonly total: number };

export type CopyResult = {
  /** The numbers of copied rows. */
  readonly counts: ReadonlyMap<TableName, number>;
  /** The first inconsistency of the audit log, which is one of the source; undefined: there is none. */
  readonly auditProblem: string | undefined;
};

/** Copies the tables, reads the copy back to check it, and commits it. */
export async function copyTables(
  source: TableReader,
  destination: TableWriter,
  { tables = tableNames, keys, entry, onProgress = () => {}, signal }: CopyOptions,
): Promise<CopyResult> {
  const counts = new Map<TableName, number>();
  for (const table of tables) {
    counts.set(table, await source.count(table));
  }
  const total = [...counts.values()].reduce((sum, count) => sum + count, 0);

  /** Reads the tables in batches, which are reported when they were processed. */
  async function* read(reader: TableReader, phase: CopyProgress["phase"]): AsyncGenerator<[TableName, readonly Row[]]> {
    let done = 0;
    for (const table of tables) {
      for await (const rows of reader.read(table)) {
        signal?.throwIfAborted();
        yield [table, rows];
        // The copy also has the new audit entry.
        done = Math.min(done + rows.length, total);
        onProgress({ phase, done, total });
      }
    }
  }

  const written = new Map(tables.map((table) => [table, new Digest()]));
  const convert = createConversion(keys);
  /** The entry after which the audit log starts. */
  let pruned = emptyHead;
  let lastSeq = 0;
  async function write(table: TableName, rows: readonly Row[]): Promise<void> {
    written.get(table)?.add(rows);
    await destination.write(table, rows);
  }
  for await (const [table, rows] of read(source, "copying")) {
    const converted: readonly Row[] = rows.map((row) => convert(table, row));
    if (table === "audit") {
      for (const { kind, subject, seq } of converted as readonly AuditRow[]) {
        pruned = (kind === "audit_pruned" ? parseHead(subject ?? "") : undefined) ?? pruned;
        lastSeq = seq;
      }
    }
    await write(table, converted);
  }
  for (const [table, { count }] of written) {
    assertCount(table, count, counts.get(table));
  }
  const recorded = await source.readHead();
  if (entry === undefined) {
    await destination.writeHead(recorded);
  } else {
    // The numbers differ only if the log was changed, which the hash of the new entry must not hide.
    const row = toAuditRow({ seq: Math.max(recorded.seq, lastSeq), hash: recorded.hash }, entry, Date.now());
    await write("audit", [row]);
    await destination.writeHead(row);
  }
  const auditProblem = await checkCopy(read(destination, "checking"), {
    written,
    pruned,
    head: await destination.readHead(),
    key: keys?.[0],
  });
  await destination.commit();
  return { counts, auditProblem };
}

/**
 * Returns a function that converts rows for the destination of a copy. It must be called with revisions and proposals before their content.
 * `keys` is as `CopyOptions.keys`.
 */
function createConversion([to, ...others]: readonly CredentialKey[] = []): (table: TableName, row: Row) => Row {
  /** The encryption contexts of columns, by the table that has them and the sequence number. */
  const names = new Map<TableName, Map<unknown, unknown>>();

  function encrypt(table: TableName, row: Row, to: CredentialKey): Row {
    const encrypted = encryptedColumns.get(table);
    const value = encrypted && row[encrypted.column];
    if (encrypted === undefined || !(value instanceof Uint8Array)) {
      return row;
    }
    const name = names.get(encrypted.namedBy)?.get(row["seq"]);
    const again = encryptAgain(encrypted, { name, value }, to, others);
    // A session that can't be decrypted has ended.
    if (again === "unreadable" && table !== "token") {
      throw new Error(missingSecret);
    }
    return again instanceof Buffer ? { ...row, [encrypted.column]: again } : row;
  }

  for (const { namedBy } of encryptedColumns.values()) {
    names.set(namedBy, new Map());
  }
  const nameColumns = new Map([...encryptedColumns.values()].map(({ namedBy, nameColumn }) => [namedBy, nameColumn]));
  return (table, row) => {
    names.get(table)?.set(row["seq"], row[nameColumns.get(table) ?? ""]);
    const portable = toPortableRow(row);
    return to === undefined ? portable : encrypt(table, portable, to);
  };
}

function toPortableRow(row: Row): Row {
  return Object.fromEntries(Object.entries(row).map(([name, value]) => [name, toPortable(value)]));
}

type Expected = {
  readonly written: ReadonlyMap<TableName, Digest>;
  /** The entry after which the audit log starts. */
  readonly pruned: AuditHead;
  /** The newest entry. */
  readonly head: AuditHead;
  /** The key of the newest credentials. */
  readonly key: CredentialKey | undefined;
};

/**
 * Checks the rows of a copy: their number, a hash over them, and whether the newest credentials can be decrypted. Resolves with the
 * first inconsistency of the audit log, if there is one.
 */
async function checkCopy(
  copy: AsyncIterable<readonly [TableName, readonly Row[]]>,
  { written, pruned, head, key }: Expected,
): Promise<string | undefined> {
  const found = new Map([...written.keys()].map((table) => [table, new Digest()]));
  const newest = new Map<TableName, Row>();
  const check = new AuditCheck(pruned, undefined);
  const summaries = new Map<number, SummaryRow>();
  for await (const [table, rows] of copy) {
    found.get(table)?.add(rows);
    newest.set(table, rows.at(-1) ?? {});
    switch (table) {
      case "revision":
        for (const row of rows as readonly SummaryRow[]) {
          summaries.set(row.seq, row);
        }
        break;
      case "revision_content":
        for (const { seq, flows } of rows as readonly (ContentRow & Pick<SummaryRow, "seq">)[]) {
          check.addRevision(summaries.get(seq) as SummaryRow, hashFlows(flows));
        }
        break;
      case "audit":
        rows.every((row) => check.addEntry(toAuditEntry(row)));
        break;
      default:
    }
  }
  for (const [table, digest] of written) {
    assertCount(table, found.get(table)?.count, digest.count);
    if (found.get(table)?.end() !== digest.end()) {
      throw new Error(`the copied rows of the table ${table} differ from the original; the copy was discarded`);
    }
  }
  const content = newest.get("revision_content");
  if (key !== undefined && content !== undefined) {
    openCredentials(
      new CredentialKeys([key]),
      (newest.get("revision") as SummaryRow).rev,
      (content as ContentRow).credentials,
    );
  }
  return check.end(head).problem;
}

function assertCount(table: TableName, found: number | undefined, expected: number | undefined): void {
  if (found !== expected) {
    throw new Error(`${found} of ${expected} rows of the table ${table} were copied; the copy was discarded`);
  }
}

/** The number of rows, and a hash over them and their order. */
class Digest {
  count = 0;
  readonly #hash: Hash = createHash("sha256");

  add(rows: readonly Row[]): void {
    this.count += rows.length;
    for (const row of rows) {
      // Databases return columns in different orders.
      for (const name of Object.keys(row).toSorted()) {
        const value = row[name];
        const bytes = value instanceof Uint8Array ? value : Buffer.from(JSON.stringify(value));
        this.#hash.update(`${name} ${bytes.length}\n`).update(bytes);
      }
    }
  }

  /** Returns the hash. Nothing can be added afterwards. */
  end(): string {
    return this.#hash.digest("hex");
  }
}

/** The methods of readers and writers that adapters share. */
export function createTableAccess(query: Query): Pick<TableWriter, "count" | "readHead" | "write" | "writeHead"> {
  return {
    async count(table) {
      const [row] = await query<{ count: number }>(`SELECT count(*) AS count FROM flowgate.${table}`);
      return row?.count ?? 0;
    },
    readHead: () => readHead(query),
    write: (table, rows) => insertRows(query, table, rows),
    writeHead: (head) => writeHead(query, head),
  };
}

/** True if a store has data: a token, an audit entry, or a revision other than the first one. */
export async function hasData(query: Query): Promise<boolean> {
  const rows = await query(
    `SELECT 1 AS used WHERE EXISTS (SELECT 1 FROM flowgate.revision WHERE parent IS NOT NULL)
       OR EXISTS (SELECT 1 FROM flowgate.token) OR EXISTS (SELECT 1 FROM flowgate.audit)`,
  );
  return rows.length > 0;
}
