import { types } from "node:util";

/** Binary messages may have 100 levels, and each of JSON takes two. */
const maxDepth = 40;

/** The minimum size that is counted for a value, so that many small values are limited like a few large ones. */
const minBytes = 32;

/** A value as JSON. */
export type EncodedValue = {
  readonly value: unknown;
  /** True if something is missing in it, since there is too much, or replaced, since JSON can't represent it. */
  readonly isTruncated: boolean;
};

/**
 * Copies a value of flows to JSON of at most about `maxBytes`. No code of flows is executed: no getter, `toJSON`, iterator or proxy. What
 * JSON can't represent is replaced by a text such as "[function]".
 */
export class ValueEncoder {
  #bytesLeft: number;
  #isTruncated = false;
  /** The objects that contain the current value. */
  readonly #ancestors = new Set<object>();

  constructor(maxBytes: number) {
    this.#bytesLeft = maxBytes;
  }

  /** Can be called several times: all values together have `maxBytes`. */
  encode(value: unknown): EncodedValue {
    this.#isTruncated = false;
    return { value: this.#copy(value), isTruncated: this.#isTruncated };
  }

  /** True if another value would be left out. */
  get isFull(): boolean {
    return this.#bytesLeft <= 0;
  }

  #copy(value: unknown): unknown {
    this.#bytesLeft -= minBytes;
    switch (typeof value) {
      case "string":
        return this.#cut(value);
      case "boolean":
        return value;
      case "number":
        return Number.isFinite(value) ? value : this.#replace(null);
      case "undefined":
        return null;
      case "bigint":
        return this.#replace(BigInt.asIntN(64, value) === value ? String(value) : "[bigint]");
      case "object":
        return value === null ? null : this.#copyObject(value);
      default:
        return this.#replace(`[${typeof value}]`);
    }
  }

  #copyObject(value: object): unknown {
    if (types.isProxy(value)) {
      return this.#replace("[proxy]");
    }
    if (types.isDate(value)) {
      const ms = Date.prototype.getTime.call(value);
      return Number.isNaN(ms) ? this.#replace(null) : new Date(ms).toISOString();
    }
    if (this.#ancestors.has(value)) {
      return this.#replace("[circular]");
    }
    if (this.#ancestors.size >= maxDepth) {
      return this.#replace(Array.isArray(value) ? "[array]" : "[object]");
    }
    this.#ancestors.add(value);
    const copy = this.#copyContent(value);
    this.#ancestors.delete(value);
    return copy;
  }

  #copyContent(value: object): unknown {
    if (types.isUint8Array(value)) {
      // As Node-RED stores buffers.
      return { type: "Buffer", data: this.#copyItems(value, byteCount(value)) };
    }
    if (Array.isArray(value)) {
      return this.#copyItems(value, value.length);
    }
    const exotic = exoticTypes.find(([isType]) => isType(value));
    return exotic === undefined ? this.#copyProperties(value) : this.#replace(`[${exotic[1]}]`);
  }

  #copyItems(items: object, count: number): unknown[] {
    const copy: unknown[] = [];
    for (let index = 0; index < count; index += 1) {
      if (this.isFull) {
        this.#isTruncated = true;
        break;
      }
      copy.push(this.#copyProperty(Object.getOwnPropertyDescriptor(items, index)));
    }
    return copy;
  }

  #copyProperties(value: object): object {
    // Without a prototype, whose properties flows may have changed.
    const copy = Object.create(null) as Record<string, unknown>;
    for (const key of Object.keys(value)) {
      const property = Object.getOwnPropertyDescriptor(value, key);
      // As JSON.stringify does.
      if (property !== undefined && "value" in property && property.value === undefined) {
        continue;
      }
      const bytes = jsonBytes(key.slice(0, this.#bytesLeft + 1));
      if (this.isFull || bytes > this.#bytesLeft) {
        this.#isTruncated = true;
        break;
      }
      // Readers of JSON could set a prototype with it.
      if (key === "__proto__") {
        this.#isTruncated = true;
        continue;
      }
      this.#bytesLeft -= bytes;
      copy[key.toWellFormed()] = this.#copyProperty(property);
    }
    return copy;
  }

  #copyProperty(property: PropertyDescriptor | undefined): unknown {
    return property !== undefined && !("value" in property) ? this.#replace("[getter]") : this.#copy(property?.value);
  }

  #cut(text: string): string {
    let kept = text.slice(0, Math.max(this.#bytesLeft, 0));
    let bytes = jsonBytes(kept);
    while (bytes > this.#bytesLeft && kept !== "") {
      kept = kept.slice(0, Math.floor((kept.length * Math.max(this.#bytesLeft, 0)) / bytes));
      bytes = jsonBytes(kept);
    }
    this.#bytesLeft -= bytes;
    if (kept.length < text.length) {
      this.#isTruncated = true;
      // The first half of a character.
      kept = kept.replace(/[\uD800-\uDBFF]$/, "");
    }
    return kept.toWellFormed();
  }

  #replace<T>(substitute: T): T {
    this.#isTruncated = true;
    return substitute;
  }
}

/** The bytes that a text takes in JSON. */
function jsonBytes(text: string): number {
  return Buffer.byteLength(JSON.stringify(text));
}

const typedArray = Object.getPrototypeOf(Uint8Array.prototype) as object;

/** Flows can give an array another property `length`. */
function byteCount(bytes: Uint8Array): number {
  return Reflect.get(typedArray, "length", bytes) as number;
}

const exoticTypes: readonly (readonly [(value: object) => boolean, string])[] = [
  [types.isMap, "map"],
  [types.isSet, "set"],
  [types.isRegExp, "regexp"],
  [types.isNativeError, "error"],
  [types.isPromise, "promise"],
  [types.isWeakMap, "weakmap"],
  [types.isWeakSet, "weakset"],
  [types.isAnyArrayBuffer, "arraybuffer"],
  [types.isArrayBufferView, "typedarray"],
  [types.isBoxedPrimitive, "object"],
];

/** The type of a value and its size, as the editor shows them. */
export function describeType(value: unknown): string {
  switch (typeof value) {
    case "string":
      return `string[${value.length}]`;
    case "object":
      break;
    default:
      return typeof value;
  }
  if (value === null) {
    return "null";
  }
  if (types.isProxy(value)) {
    return "proxy";
  }
  if (types.isUint8Array(value)) {
    return `buffer[${byteCount(value)}]`;
  }
  if (Array.isArray(value)) {
    return `array[${value.length}]`;
  }
  if (types.isDate(value)) {
    return "date";
  }
  return exoticTypes.find(([isType]) => isType(value))?.[1] ?? "object";
}
