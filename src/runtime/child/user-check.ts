import { hash, timingSafeEqual } from "node:crypto";
import { parsePasswordHash, verifyArgon2id } from "../../base/password-hash.ts";
import type { FlowUser } from "../flow-settings.ts";

/** Never rejects. `busy`: too many other passwords are being checked. */
export type UserCheck = (authorization: string | undefined) => Promise<"valid" | "invalid" | "busy">;

/** Checks that are in progress or wait. They take turns, since each takes tens of milliseconds of a core, and memory. */
const maxChecks = 16;

/** Returns a function that checks the name and password in an Authorization header (RFC 7617). */
export function createUserCheck({ username, password }: FlowUser): UserCheck {
  const passwordHash = parsePasswordHash(password);
  /** Of what was valid last: a password is checked at each request. */
  let valid: Buffer | undefined;
  let checks = 0;
  let last: Promise<unknown> = Promise.resolve();

  const verify = async (given: string): Promise<boolean> => {
    if (passwordHash?.kind === "argon2id") {
      return verifyArgon2id(given, passwordHash);
    }
    // Loaded when it is needed only: it works in slices of the event loop.
    const { compare } = await import("bcryptjs");
    return passwordHash !== undefined && compare(given.slice(0, 73), passwordHash.text);
  };

  return async (authorization = "") => {
    const digest = hash("sha256", authorization, "buffer");
    if (valid !== undefined && timingSafeEqual(valid, digest)) {
      return "valid";
    }
    const given = parseBasic(authorization);
    if (given?.username !== username) {
      return "invalid";
    }
    if (checks >= maxChecks) {
      return "busy";
    }
    checks += 1;
    const check = last.then(() => verify(given.password));
    last = check.catch(() => {});
    try {
      const isValid = await check;
      valid = isValid ? digest : valid;
      return isValid ? "valid" : "invalid";
    } catch {
      // There was not enough memory for it.
      return "busy";
    } finally {
      checks -= 1;
    }
  };
}

function parseBasic(authorization: string): { readonly username: string; readonly password: string } | undefined {
  const [, encoded = ""] = /^Basic +([\w+/]+=*) *$/i.exec(authorization) ?? [];
  const text = Buffer.from(encoded, "base64").toString();
  const colon = text.indexOf(":");
  return colon === -1 ? undefined : { username: text.slice(0, colon), password: text.slice(colon + 1) };
}
