import { randomBytes } from "node:crypto";

/** Random, so that ids are unique across processes. */
export function createRev(): string {
  return randomBytes(16).toString("base64url");
}
