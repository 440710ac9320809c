import type { AuditRecord } from "../audit-store.ts";
import { type Row, type TableName, type TableReader, type TableWriter, tableNames } from "../tables.ts";
import { assertCount, checkCopy } from "./check-copy.ts";
import { createConversion } from "./conversion.ts";
import { createDigest, type Digest } from "./digest.ts";
import { createLogEnd } from "./log-end.ts";

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

  const written = new Map<TableName, Digest>(tables.map((table) => [table, createDigest()]));
  const log = createLogEnd();
  const convert = createConversion(keys);
  async function write(table: TableName, rows: readonly Row[]): Promise<void> {
    written.get(table)?.add(rows);
    await destination.write(table, rows);
  }
  for await (const [table, rows] of read(source, "copying")) {
    const converted = rows.map((row) => convert(table, row));
    if (table === "audit") {
      log.add(converted);
    }
    await write(table, converted);
  }
  for (const [table, digest] of written) {
    assertCount(table, digest.count(), counts.get(table));
  }
  const { row, head } = log.end(await source.readHead(), entry);
  if (row !== undefined) {
    await write("audit", [row]);
  }
  await destination.writeHead(head);
  const auditProblem = await checkCopy(read(destination, "checking"), {
    written,
    pruned: log.pruned(),
    head: await destination.readHead(),
    key: keys?.[0],
  });
  await destination.commit();
  return { counts, auditProblem };
}
