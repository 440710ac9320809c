import type { JsonObject, JsonValue } from "@bufbuild/protobuf";

type Json = JsonValue | undefined | { readonly [key: string]: JsonValue };

/**
 * Whether two JSON values are equal. The order of members is not significant. With `isDeepStrictEqual` of node:util instead, diffs
 * of 10,000 nodes take 20 to 45 % longer.
 */
export function isSameJson(one: Json, other: Json): boolean {
  if (one === other) {
    return true;
  }
  if (typeof one !== "object" || typeof other !== "object" || one === null || other === null) {
    return false;
  }
  if (Array.isArray(one) || Array.isArray(other)) {
    return (
      Array.isArray(one) &&
      Array.isArray(other) &&
      one.length === other.length &&
      one.every((element, index) => isSameJson(element, other[index]))
    );
  }
  const keys = Object.keys(one);
  return (
    keys.length === Object.keys(other).length &&
    keys.every((key) => Object.hasOwn(other, key) && isSameJson(one[key], other[key]))
  );
}

export function isJsonObject(value: JsonValue | undefined): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Visits all texts in a value, but not the names of members. */
export function visitTexts(value: JsonValue | undefined, visit: (text: string) => void): void {
  if (typeof value === "string") {
    visit(value);
  } else if (typeof value === "object" && value !== null) {
    for (const each of Object.values(value)) {
      visitTexts(each, visit);
    }
  }
}
