import { createHash } from "node:crypto";
import type { Row } from "../tables.ts";

/** The number of rows, and a hash over them and their order. */
export interface Digest {
  add(rows: readonly Row[]): void;
  count(): number;
  /** In hexadecimal. */
  hash(): string;
}

export function createDigest(): Digest {
  const hash = createHash("sha256");
  let count = 0;
  return {
    add(rows) {
      count += rows.length;
      for (const row of rows) {
        // Databases return columns in different orders.
        for (const name of Object.keys(row).toSorted()) {
          const value = row[name];
          const bytes = value instanceof Uint8Array ? value : Buffer.from(JSON.stringify(value));
          hash.update(`${name} ${bytes.length}\n`).update(bytes);
        }
      }
    },
    count: () => count,
    hash: () => hash.copy().digest("hex"),
  };
}
