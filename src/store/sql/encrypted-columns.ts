import type { Row, TableName } from "../adapter.ts";
import { nodeSealName } from "./node-credentials.ts";
import { settingSealName } from "./node-settings.ts";
import { type ProposalRow, sealNameOf } from "./proposal-row.ts";
import type { SummaryRow } from "./revision-row.ts";

type EncryptedColumn = {
  readonly column: string;
  /** The table whose row with the same `seq` has what the column is encrypted for. It is copied before. */
  readonly namedBy: TableName;
  /** What the column is encrypted for, by that row: the name for `sealText`. */
  readonly nameOf: (row: Row) => string;
};

/** All columns that are encrypted with the key of the credentials, by table. */
export const encryptedColumns: ReadonlyMap<TableName, EncryptedColumn> = new Map([
  ["revision_content", { column: "credentials", namedBy: "revision", nameOf: (row) => (row as SummaryRow).rev }],
  [
    "proposal_content",
    { column: "credentials", namedBy: "proposal", nameOf: (row) => sealNameOf((row as ProposalRow).id) },
  ],
  [
    "node_credential",
    { column: "credentials", namedBy: "node_credential", nameOf: (row) => nodeSealName(String(row["node_id"])) },
  ],
  ["node_setting", { column: "value", namedBy: "node_setting", nameOf: (row) => settingSealName(String(row["name"])) }],
] satisfies [TableName, EncryptedColumn][]);
