import { randomBytes } from "node:crypto";

/** Random, so that no two deployments share one, whichever process they come from. */
export function createRev(): string {
  return randomBytes(16).toString("base64url");
}
