import { createHash } from "node:crypto";
import type { Change } from "./change.ts";

/** Returns the SHA-256 of what distinguishes the request of a change from others. */
export function fingerprint(change: Change): Buffer {
  const hash = createHash("sha256");
  for (const part of [change.cause, change.deploymentType, ...change.identity()]) {
    const bytes = Buffer.from(part);
    // Lengths keep adjacent parts apart.
    hash.update(`${bytes.length}:`).update(bytes);
  }
  return hash.digest();
}
