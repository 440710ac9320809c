import { inspect } from "node:util";
import type { CredentialSets } from "../flows/configuration.ts";
import { visitCredentials } from "../flows/credential-sets.ts";
import { type NodeRef, maxNameChars } from "../runtime/node-events.ts";

/** Shorter values would also be found in texts that have nothing to do with them. */
const minChars = 4;

/** The lines of longer values, such as private keys, are found one by one. */
const minLineChars = 8;

const replacement = "[redacted]";

/** Replaces the values of credentials in texts. */
export class Redactor {
  /** The values by their first characters, the longest first. */
  readonly #values = new Map<string, string[]>();
  /** Finds these first characters. A long text is searched several times faster than by looking up each position. */
  readonly #starts: RegExp;

  constructor(sets: Iterable<CredentialSets>) {
    const values = new Set<string>();
    for (const credentials of sets) {
      visitCredentials(credentials, (text) => formsOf(text).forEach((form) => values.add(form)));
    }
    for (const value of [...values].toSorted((one, other) => other.length - one.length)) {
      const start = value.slice(0, minChars);
      const known = this.#values.get(start);
      if (known === undefined) {
        this.#values.set(start, [value]);
      } else {
        known.push(value);
      }
    }
    this.#starts = new RegExp(
      this.#values
        .keys()
        .map((start) => RegExp.escape(start))
        .toArray()
        .join("|"),
      "g",
    );
  }

  /** Returns the text without the values. `isCut`: it may end within one. */
  redact(text: string, isCut = false): string {
    if (this.#values.size === 0 || text.length < minChars) {
      return text;
    }
    let redacted = "";
    let from = 0;
    this.#starts.lastIndex = 0;
    for (let found = this.#starts.exec(text); found !== null; found = this.#starts.exec(text)) {
      const { index, 0: start } = found;
      const length = lengthOf(this.#values.get(start) ?? [], text, index, isCut);
      if (length === undefined) {
        this.#starts.lastIndex = index + 1;
      } else {
        redacted += text.slice(from, index) + replacement;
        from = index + length;
        this.#starts.lastIndex = from;
      }
    }
    return from === 0 ? text : redacted + text.slice(from);
  }
}

/** Returns JSON without the values, in texts and keys, and whether there were any. `isCut`: texts may end within one. */
export function redactJson(
  redactor: Redactor,
  json: unknown,
  isCut: boolean,
): { readonly json: unknown; readonly isRedacted: boolean } {
  let isRedacted = false;
  const redactText = (text: string): string => {
    const redacted = redactor.redact(text, isCut);
    isRedacted ||= redacted !== text;
    return redacted;
  };
  const redact = (value: unknown): unknown => {
    if (typeof value === "string") {
      return redactText(value);
    }
    if (typeof value !== "object" || value === null) {
      return value;
    }
    return Array.isArray(value)
      ? value.map(redact)
      : Object.fromEntries(Object.entries(value).map(([key, item]) => [redactText(key), redact(item)]));
  };
  return { json: redact(json), isRedacted };
}

/** Returns the node without the values. */
export function redactNode(
  redactor: Redactor,
  { nodeId = "", nodeType, nodeName, flowId, flowLabel, subflowPath }: Partial<NodeRef>,
): NodeRef & { readonly subflowPath?: string[] } {
  const redact = (text: string): string => redactor.redact(text, text.length >= maxNameChars);
  return {
    nodeId: redact(nodeId),
    ...(nodeType !== undefined && { nodeType: redact(nodeType) }),
    ...(nodeName !== undefined && { nodeName: redact(nodeName) }),
    ...(flowId !== undefined && { flowId: redact(flowId) }),
    ...(flowLabel !== undefined && { flowLabel: redact(flowLabel) }),
    ...(subflowPath !== undefined && { subflowPath: subflowPath.map(redact) }),
  };
}

/** The number of characters of the value at this position; undefined if there is none. */
function lengthOf(values: readonly string[], text: string, at: number, isCut: boolean): number | undefined {
  const found = values.find((value) => text.startsWith(value, at));
  if (found !== undefined) {
    return found.length;
  }
  // The cut can also be within a character, whose half was replaced.
  const rest = text.slice(at).replace(/\uFFFD$/, "");
  return isCut && values.some((value) => value.startsWith(rest)) ? text.length - at : undefined;
}

/** A value as it can appear in texts: as it is, in JSON, in what `inspect` prints, and in a URL. */
function formsOf(value: string): string[] {
  const lines = value.split(/\r?\n/);
  const parts = lines.length === 1 ? [value] : [value, ...lines.filter((line) => line.length >= minLineChars)];
  return parts
    .flatMap((part) => [
      part,
      JSON.stringify(part).slice(1, -1),
      inspect(part).slice(1, -1),
      encodeURIComponent(part.toWellFormed()),
    ])
    .filter((form) => form.length >= minChars);
}
