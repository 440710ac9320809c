import { type Fields, isFields } from "@flowgate/base/fields";
import type { Procedure } from "./calls.ts";
import { cutText } from "./node-events.ts";
import { redactJson } from "./redaction.ts";

/** Where flows keep values between messages: for all flows, a flow or instance of a subflow, or a node. */
export type ContextScope = { readonly kind: "global" } | { readonly kind: "flow" | "node"; readonly id: string };

/** Undefined: the default store. */
type InStore = { readonly store?: string | undefined };

export type ContextKeys = {
  readonly scope: ContextScope;
  readonly store: string;
  readonly keys: readonly string[];
  /** True if there are more keys. */
  readonly isTruncated: boolean;
};

export type ContextList = {
  /** The default one is first. */
  readonly stores: readonly string[];
  readonly scopes: readonly ContextKeys[];
  /** True if there are more scopes. */
  readonly isTruncated: boolean;
};

/** Why there is nothing: what does not exist, or why it is refused. */
export type NoContext =
  | { readonly missing: "scope" | "key" }
  | { readonly missing: "store"; readonly stores: readonly string[] }
  | { readonly refused: string };

/** `isTruncated`: a value is incomplete, or is not JSON. */
export type ReadContextValue =
  | { readonly value: unknown; readonly format: string; readonly isTruncated: boolean }
  | { readonly values: Readonly<Record<string, unknown>>; readonly isTruncated: boolean };

export type GetContext = InStore & {
  readonly scope: ContextScope;
  /** A property expression, such as `a.b[0]`; undefined: all values of the scope. */
  readonly key?: string | undefined;
};

export type SetContext = InStore & { readonly scope: ContextScope; readonly key: string; readonly value: unknown };

export type DeleteContext = Omit<SetContext, "value">;

/** Of the JSON of all values in a result. */
export const maxValueBytes = 1024 * 1024;

export const listContext: Procedure<InStore, ContextList | NoContext> = {
  name: "context.list",
  parse: (result, redact) => parseMissing(result, redact) ?? parseList(result, redact),
};

export const getContext: Procedure<GetContext, ReadContextValue | NoContext> = {
  name: "context.get",
  parse: (result, redact) => parseMissing(result, redact) ?? parseValue(result, redact),
};

export const setContext: Procedure<SetContext, "done" | NoContext> = {
  name: "context.set",
  parse: (result, redact) => (result === "done" ? result : parseMissing(result, redact)),
};

export const deleteContext: Procedure<DeleteContext, "done" | NoContext> = {
  name: "context.delete",
  parse: (result, redact) => (result === "done" ? result : parseMissing(result, redact)),
};

type RedactText = (text: string) => string;

function parseMissing(result: unknown, redact: RedactText): NoContext | undefined {
  if (!isFields(result)) {
    return undefined;
  }
  const { missing, stores, refused } = result;
  if (typeof refused === "string") {
    return { refused: cutText(redact(refused), 300) };
  }
  if (missing === "store") {
    return { missing, stores: parseTexts(stores, redact) ?? [] };
  }
  return missing === "scope" || missing === "key" ? { missing } : undefined;
}

function parseList(result: unknown, redact: RedactText): ContextList | undefined {
  if (!isFields(result) || !Array.isArray(result["scopes"])) {
    return undefined;
  }
  const stores = parseTexts(result["stores"], redact);
  const scopes = result["scopes"].map((each) => parseKeys(each, redact));
  return stores === undefined || !scopes.every((each) => each !== undefined)
    ? undefined
    : { stores, scopes, isTruncated: result["isTruncated"] === true };
}

function parseKeys(value: unknown, redact: RedactText): ContextKeys | undefined {
  if (!isFields(value)) {
    return undefined;
  }
  const scope = parseScope(value["scope"], redact);
  const keys = parseTexts(value["keys"], redact);
  const { store } = value;
  return scope === undefined || keys === undefined || typeof store !== "string"
    ? undefined
    : { scope, store: redact(store.toWellFormed()), keys, isTruncated: value["isTruncated"] === true };
}

function parseScope(value: unknown, redact: RedactText): ContextScope | undefined {
  if (!isFields(value)) {
    return undefined;
  }
  const { kind, id } = value;
  if (kind === "global") {
    return { kind };
  }
  return (kind === "flow" || kind === "node") && typeof id === "string"
    ? { kind, id: redact(id.toWellFormed()) }
    : undefined;
}

function parseTexts(values: unknown, redact: RedactText): string[] | undefined {
  return Array.isArray(values) && values.every((each) => typeof each === "string")
    ? values.map((each: string) => redact(each.toWellFormed()))
    : undefined;
}

function parseValue(result: unknown, redact: RedactText): ReadContextValue | undefined {
  if (!isFields(result)) {
    return undefined;
  }
  const { value, values, format } = result;
  let isTruncated = result["isTruncated"] === true;
  const redactText = (text: string): string => {
    const redacted = redact(text);
    isTruncated ||= redacted !== text;
    return redacted;
  };
  if (values !== undefined) {
    if (!isFields(values) || Array.isArray(values) || !isBounded(values)) {
      return undefined;
    }
    const redacted = redactJson(values, redactText) as Fields;
    return { values: redacted, isTruncated };
  }
  if (typeof format !== "string" || format.length >= 100 || value === undefined || !isBounded(value)) {
    return undefined;
  }
  const redacted = redactJson(value, redactText);
  return { value: redacted, format: redact(format.toWellFormed()), isTruncated };
}

const maxDepth = 45;
const maxCount = 100_000;

/** True if JSON can be a message: its size is limited by that of replies. */
function isBounded(json: unknown): boolean {
  let count = 0;
  const isFine = (value: unknown, depth: number): boolean => {
    count += 1;
    if (count > maxCount || depth > maxDepth) {
      return false;
    }
    if (typeof value === "string") {
      return value.isWellFormed();
    }
    if (!isFields(value)) {
      return true;
    }
    return Array.isArray(value)
      ? value.every((item) => isFine(item, depth + 1))
      : Object.entries(value).every(
          ([key, item]) => key !== "__proto__" && key.isWellFormed() && isFine(item, depth + 1),
        );
  };
  return isFine(json, 0);
}
