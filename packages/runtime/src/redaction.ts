import type { CredentialSets } from "@flowgate/flows";

/** Removes the values of credentials from a text. `isCut`: it may end within one. */
export type Redact = (text: string, isCut: boolean) => string;

/**
 * Keeps the values of credentials out of everything that flows write. What the runtime process sends is redacted where it is parsed,
 * before anything uses it: every output is covered, whether it is a log, an event, an error, a trace or a response.
 */
export interface Redaction {
  readonly redact: Redact;
  /** Returns those of the texts that `redact` changes, and what it returns. The texts can be many and long: they do not block the event loop. */
  redactAll(texts: ReadonlySet<string>, isCut: boolean): Promise<ReadonlyMap<string, string>>;
  /** Must be called before flows receive these credentials, which can be written once it has resolved; undefined: at once. Never rejects. */
  learn(credentials: CredentialSets): Promise<void> | undefined;
  /** Also redacts credentials that nodes store, from now on. */
  readonly learnWritten: (sets: CredentialSets) => void;
}

export const noRedaction: Redaction = {
  redact: (text) => text,
  redactAll: async () => new Map(),
  learn: () => undefined,
  learnWritten: () => {},
};

/** Longer texts take milliseconds. */
export const maxSyncChars = 64 * 1024;

/** Returns a function that redacts the texts in JSON of so many characters. */
export async function redactTextsOf(
  json: unknown,
  chars: number,
  redaction: Redaction,
  isCut: boolean,
): Promise<(text: string) => string> {
  if (chars <= maxSyncChars) {
    return (text) => redaction.redact(text, isCut);
  }
  const texts = new Set<string>();
  redactJson(json, (text) => {
    texts.add(text.toWellFormed());
    return text;
  });
  const redacted = await redaction.redactAll(texts, isCut);
  return (text) => redacted.get(text.toWellFormed()) ?? text;
}

/** Redacts the texts, keys and bytes in JSON. */
export function redactJson(value: unknown, redact: (text: string) => string): unknown {
  if (typeof value === "string") {
    return redact(value);
  }
  if (typeof value !== "object" || value === null) {
    return value;
  }
  if (!Array.isArray(value)) {
    return Object.fromEntries(Object.entries(value).map(([key, item]) => [redact(key), redactJson(item, redact)]));
  }
  return value.length > 0 && value.every(isByte)
    ? redactBytes(value, redact)
    : value.map((item) => redactJson(item, redact));
}

function isByte(value: unknown): boolean {
  return typeof value === "number" && Number.isInteger(value) && value >= 0 && value < 256;
}

/** Replaces the bytes of each value by one text. */
function redactBytes(bytes: readonly number[], redact: (text: string) => string): unknown[] {
  const text = bytes.join(",");
  const redacted = redact(text);
  return redacted === text ? [...bytes] : redacted.split(",").map((item) => (/^\d+$/.test(item) ? Number(item) : item));
}
