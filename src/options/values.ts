import { isAbsolute, join } from "node:path";
import * as z from "zod";
import { isConfidentialUrl } from "@flowgate/base/addresses";
import { hasCode } from "@flowgate/base/error-code";
import { parsePasswordHash } from "@flowgate/base/password-hash";
import { hasWildcard } from "@flowgate/runtime";

// Schemas shared by several options.

export const text = z.string("must be text").min(1, "must not be empty");
export const flag = z.boolean("must be true or false");
export const port = wholeNumber(0, 65_535);
export const milliseconds = wholeNumber(1, 86_400_000);
export const paths = listOf(
  text.refine((path) => !isWildcardPath(path), 'must be a path without "*"; "/" permits all files'),
  "paths",
);

/** An origin at which browsers reach this service. */
export const origin = z
  .string("must be a URL")
  .refine(
    (url) => isConfidentialUrl(url) && URL.parse(url)?.href === `${URL.parse(url)?.origin}/`,
    "must be an https URL such as https://flows.example, or an http URL of this machine, without a path",
  )
  .transform((url) => new URL(url).origin);

export function wholeNumber(min: number, max: number) {
  const error = `must be a whole number from ${min} to ${max}`;
  return z.int(error).min(min, error).max(max, error);
}

export function oneOf<const Words extends readonly string[]>(words: Words) {
  return z.enum(words, `must be one of: ${words.join(", ")}`);
}

/** An immutable list. `items` names its elements in the error. */
export function listOf<Item extends z.ZodType>(item: Item, items: string) {
  return z.array(item, `must be a list of ${items}`).readonly();
}

export const passwordHash = z
  .string("must be a password hash; `flowgate hash-password` creates one")
  .refine(
    (hash) => parsePasswordHash(hash) !== undefined,
    "must be an argon2id or bcrypt hash, not the password itself, with a cost within the supported range; `flowgate hash-password` creates one",
  );

/** True if a text is an http or https URL without user and password. */
export function isPlainUrl(text: string): boolean {
  const url = URL.parse(text);
  return url !== null && /^https?:$/.test(url.protocol) && url.username === "" && url.password === "";
}

/** false is the same as 0. */
export function wholeNumberOrOff(max: number) {
  const error = `must be a whole number from 0 to ${max}, or false`;
  return z.union([z.int().min(0).max(max), z.literal(false)], error).transform(Number);
}

/** Adds an issue for each item that has the same key as an earlier one. */
export function rejectDuplicates<Key extends string>(
  items: readonly Readonly<Record<Key, string>>[],
  key: Key,
  list: string,
  context: z.RefinementCtx,
): void {
  const first = new Map<string, number>();
  for (const [at, { [key]: value }] of items.entries()) {
    const earlier = first.get(value);
    if (earlier === undefined) {
      first.set(value, at);
    } else {
      context.addIssue({
        code: "custom",
        path: [at, key],
        message: `must be unique: ${list}[${earlier}] has the same value`,
      });
    }
  }
}

/** True if a path is a wildcard for the sandbox of the flows, also because of the working directory that it is relative to. */
export function isWildcardPath(path: string): boolean {
  return hasWildcard(isAbsolute(path) ? path : join(workingDirectory(), path));
}

/** Empty if it was deleted. */
function workingDirectory(): string {
  try {
    return process.cwd();
  } catch (error) {
    if (!hasCode(error, "ENOENT")) {
      throw error;
    }
    return "";
  }
}
