import { createHash, type Hash } from "node:crypto";
import { type Row, type TableName, tableNames, type TableReader, type TableWriter } from "../adapter.ts";
import { type AuditHead, type AuditRecord, emptyHead, parseHead } from "../audit-store.ts";
import { isKeyOf, openCredentials, openText, sealText } from "../credentials.ts";
import { type AuditRow, readHead, toAuditEntry, toAuditRow, writeHead } from "./audit-log.ts";
import { AuditCheck } from "./audit-verification.ts";
import { encryptedColumns } from "./encrypted-columns.ts";
import { insertRows, type Query, toPortable } from "./query.ts";
import { type ContentRow, hashFlows, type SummaryRow } from "./revision-row.ts";

export type CopyOptions = {
  /** Defaults to all. */
  readonly tables?: readonly TableName[];
  /**
   * The credentials are encrypted with the first of these keys at the destination, and with any of them at the source. Absent:
   * they are copied unchanged.
   */
  readonly keys?: readonly Buffer[];
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
function createConversion(keys: readonly Buffer[] | undefined): (table: TableName, row: Row) => Row {
  /** What rows are encrypted for, by their table and sequence number. */
  const names = new Map([...encryptedColumns.keys()].map((table) => [table, new Map<unknown, string>()]));
  /** The key of the source, which is the same for all of them. */
  let from: Buffer | undefined;

  function encrypt(table: TableName, column: string, row: Row, [to, ...others]: readonly [Buffer, ...Buffer[]]): Row {
    const sealed = row[column] as Uint8Array;
    const name = names.get(table)?.get(row["seq"]) ?? "";
    from ??= [to, ...others].find((key) => isKeyOf(key, name, sealed));
    if (from === undefined) {
      throw new Error(
        "the credentials can't be decrypted: configure the credentialSecret that was used to store them, or, if none was set, " +
          "name the data directory with the credential.key of that time",
      );
    }
    return from === to ? row : { ...row, [column]: sealText(to, name, openText(from, name, sealed)) };
  }

  return (table, row) => {
    for (const [encrypted, { namedBy, nameOf }] of encryptedColumns) {
      if (table === namedBy) {
        names.get(encrypted)?.set(row["seq"], nameOf(row));
      }
    }
    const column = encryptedColumns.get(table)?.column;
    const [to, ...others] = keys ?? [];
    return column !== undefined && to !== undefined ? encrypt(table, column, row, [to, ...others]) : toPortableRow(row);
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
  readonly key: Buffer | undefined;
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
    openCredentials(key, (newest.get("revision") as SummaryRow).rev, (content as ContentRow).credentials);
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

/** Whether a store has data: a token, an audit entry, or a revision other than the first one. */
export async function hasData(query: Query): Promise<boolean> {
  const rows = await query(
    `SELECT 1 AS used WHERE EXISTS (SELECT 1 FROM flowgate.revision WHERE parent IS NOT NULL)
       OR EXISTS (SELECT 1 FROM flowgate.token) OR EXISTS (SELECT 1 FROM flowgate.audit)`,
  );
  return rows.length > 0;
}
