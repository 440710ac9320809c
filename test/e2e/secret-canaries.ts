import { randomBytes } from "node:crypto";

/** Values that must not appear in any output, by name. */
export type Secrets = {
  /** Returns the secret of this name, which is created at the first time. */
  readonly secret: (name: string, fixed?: string) => string;
  /** Adds a secret that someone else created. */
  readonly add: (name: string, value: string) => void;
  /** Returns the names of the secrets that occur in the bytes, as text, base64 or hex. */
  readonly find: (content: string | Buffer) => string[];
};

export function createSecrets(): Secrets {
  const secrets = new Map<string, string>();
  return {
    secret(name, fixed) {
      const value = secrets.get(name) ?? fixed ?? `Secret${randomLetters(24)}`;
      secrets.set(name, value);
      return value;
    },
    add: (name, value) => void secrets.set(name, value),
    find(content) {
      const haystack = Buffer.from(content as string).toString("latin1");
      return [...secrets]
        .filter(([, value]) => formsOf(value).some((form) => haystack.includes(form)))
        .map(([name]) => name);
    },
  };
}

/** Texts that no encoding changes. */
function randomLetters(length: number): string {
  return Array.from(randomBytes(length), (byte) => String.fromCodePoint(97 + (byte % 26))).join("");
}

function formsOf(value: string): string[] {
  const bytes = Buffer.from(value);
  // A text has three forms within base64, depending on its offset modulo 3. Those of a short text are ambiguous.
  const base64 = (bytes.length < 12 ? [] : [0, 1, 2]).map((skip) =>
    bytes.subarray(skip, skip + 3 * Math.floor((bytes.length - skip) / 3)).toString("base64"),
  );
  return [value, bytes.toString("hex"), ...base64];
}
