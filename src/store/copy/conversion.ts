import type { ContentRow, SummaryRow } from "../revision-row.ts";
import { toPortable } from "../portable-text.ts";
import { isKeyOf, openCredentials, sealCredentials } from "../seal.ts";
import type { Row, TableName } from "../tables.ts";

/**
 * Returns a function that converts rows for the destination of a copy. It must be called with revisions before their content.
 * `keys` is as `CopyOptions.keys`.
 */
export function createConversion(keys: readonly Buffer[] | undefined): (table: TableName, row: Row) => Row {
  /** The `rev` of the revisions by sequence number. */
  const revs = new Map<number, string>();
  /** The key of the source, which is the same for all revisions. */
  let from: Buffer | undefined;

  function encrypt(content: Row, [to, ...others]: readonly [Buffer, ...Buffer[]]): Row {
    const { seq, credentials } = content as ContentRow & { seq: number };
    const rev = revs.get(seq) ?? "";
    from ??= [to, ...others].find((key) => isKeyOf(key, rev, credentials));
    if (from === undefined) {
      throw new Error(
        "the credentials can't be decrypted: configure the credentialSecret that was used to store them, or, if none was set, " +
          "name the data directory with the credential.key of that time",
      );
    }
    return from === to
      ? content
      : { ...content, credentials: sealCredentials(to, rev, openCredentials(from, rev, credentials)) };
  }

  return (table, row) => {
    if (table === "revision") {
      const { seq, rev } = row as SummaryRow;
      revs.set(seq, rev);
    }
    const [to, ...others] = keys ?? [];
    return table === "revision_content" && to !== undefined ? encrypt(row, [to, ...others]) : toPortableRow(row);
  };
}

function toPortableRow(row: Row): Row {
  return Object.fromEntries(Object.entries(row).map(([name, value]) => [name, toPortable(value)]));
}
