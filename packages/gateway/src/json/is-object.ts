import { WideInteger } from "./wide-integer.ts";

/** Whether a value of a parsed document is a JSON object. A WideInteger is not one. */
export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value) && !(value instanceof WideInteger);
}
