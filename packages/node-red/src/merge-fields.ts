import { type Fields, isFields } from "@flowgate/base/fields";

/** As Node-RED merges settings: objects are merged, null removes, and everything else replaces. */
export function mergeFields(target: Fields, source: Fields): Fields {
  const result = new Map(Object.entries(target));
  for (const [key, value] of Object.entries(source)) {
    const before = result.get(key);
    if (value === null) {
      result.delete(key);
    } else {
      result.set(key, isObject(value) && isObject(before) ? mergeFields(before, value) : value);
    }
  }
  return Object.fromEntries(result);
}

export function isObject(value: unknown): value is Fields {
  return isFields(value) && !Array.isArray(value);
}
