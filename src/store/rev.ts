import { randomBytes } from "node:crypto";

/** Random, so that ids are unique across processes. Does not begin with a hyphen, like the flags of a command line. */
export function createRev(): string {
  return randomBytes(16).toString("base64url").replace(/^-/, "0");
}
