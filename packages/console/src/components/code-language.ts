import type { JsonValue } from "@bufbuild/protobuf";

export type CodeLanguage = "javascript" | "json" | "text";

/** Properties of function nodes that contain JavaScript. */
const scripts: ReadonlySet<string> = new Set(["func", "initialize", "finalize"]);

export function detectLanguage(property: string, values: readonly (JsonValue | undefined)[]): CodeLanguage {
  if (scripts.has(property)) {
    return "javascript";
  }
  return values.every((value) => typeof value !== "string" || /^\s*[[{]/.test(value)) ? "json" : "text";
}
