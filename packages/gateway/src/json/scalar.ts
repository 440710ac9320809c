import { ScalarType, type DescField } from "@bufbuild/protobuf";
import { decodeBase64, encodeBase64 } from "#platform/bytes";
import { compile } from "./compile.ts";
import { WideInteger } from "./wide-integer.ts";

export const expectedOf: Readonly<Record<ScalarType, string>> = {
  [ScalarType.DOUBLE]: "a number",
  [ScalarType.FLOAT]: "a number",
  [ScalarType.INT64]: "a 64-bit integer",
  [ScalarType.UINT64]: "a 64-bit integer, 0 or more",
  [ScalarType.INT32]: "a 32-bit integer",
  [ScalarType.FIXED64]: "a 64-bit integer, 0 or more",
  [ScalarType.FIXED32]: "a 32-bit integer, 0 or more",
  [ScalarType.BOOL]: "true or false",
  [ScalarType.STRING]: "a string",
  [ScalarType.BYTES]: "bytes in base64",
  [ScalarType.UINT32]: "a 32-bit integer, 0 or more",
  [ScalarType.SFIXED32]: "a 32-bit integer",
  [ScalarType.SFIXED64]: "a 64-bit integer",
  [ScalarType.SINT32]: "a 32-bit integer",
  [ScalarType.SINT64]: "a 64-bit integer",
};

export type Scalar = string | number | bigint | boolean | Uint8Array;

/**
 * Creates the conversion of a scalar into the representation that its field has in memory: with the option
 * jstype = JS_STRING, protobuf-es represents a 64-bit integer as a string. Returns undefined for undefined.
 */
export function toLocal(field: DescField): (value: Scalar | undefined) => Scalar | undefined {
  return "longAsString" in field && field.longAsString
    ? (value) => (typeof value === "bigint" ? String(value) : value)
    : (value) => value;
}

const decimal = /^-?(?:0|[1-9]\d*)$/;
const float = /^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?$/;

/** Reads a scalar from JSON strictly by the proto3 JSON mapping. Returns undefined if the value is invalid. */
export function scalarFromJson(type: ScalarType, value: unknown): Scalar | undefined {
  switch (type) {
    case ScalarType.STRING:
      return typeof value === "string" ? value : undefined;
    case ScalarType.BOOL:
      return typeof value === "boolean" ? value : undefined;
    case ScalarType.BYTES:
      return typeof value === "string" ? bytesFromText(value) : undefined;
    case ScalarType.DOUBLE:
    case ScalarType.FLOAT:
      return typeof value === "number"
        ? inFloatRange(type, value)
        : typeof value === "string"
          ? scalarFromText(type, value)
          : value instanceof WideInteger
            ? inFloatRange(type, value.round())
            : undefined;
    case ScalarType.INT32:
    case ScalarType.SINT32:
    case ScalarType.SFIXED32:
      if (typeof value === "number") {
        return value === (value | 0) ? value | 0 : undefined;
      }
      return typeof value === "string" ? integerFromJson(type, value) : undefined;
    case ScalarType.UINT32:
    case ScalarType.FIXED32:
      if (typeof value === "number") {
        return value === value >>> 0 ? value >>> 0 : undefined;
      }
      return typeof value === "string" ? integerFromJson(type, value) : undefined;
    default:
      if (typeof value === "number") {
        // JSON.parse rounds integers beyond 2^53.
        return Number.isSafeInteger(value) ? inRange(type, BigInt(value)) : undefined;
      }
      if (typeof value === "string") {
        return integerFromJson(type, value);
      }
      return value instanceof WideInteger ? scalarFromText(type, value.digits) : undefined;
  }
}

/** An integer in quotes may have an exponent too. */
function integerFromJson(type: ScalarType, text: string): Scalar | undefined {
  const digits = integerDigits(text);
  return digits === undefined ? undefined : scalarFromText(type, digits);
}

/** Reads a scalar from a parameter: decimals, `true` and `false`, base64. Returns undefined if the text is invalid. */
export function scalarFromText(type: ScalarType, text: string): Scalar | undefined {
  switch (type) {
    case ScalarType.STRING:
      return text;
    case ScalarType.BOOL:
      return text === "true" ? true : text === "false" ? false : undefined;
    case ScalarType.BYTES:
      return bytesFromText(text);
    case ScalarType.DOUBLE:
    case ScalarType.FLOAT:
      if (text === "NaN" || text === "Infinity" || text === "-Infinity") {
        return Number(text);
      }
      return float.test(text) ? inFloatRange(type, Number(text)) : undefined;
    case ScalarType.INT32:
    case ScalarType.SINT32:
    case ScalarType.SFIXED32:
      return integer(text, -0x8000_0000, 0x7fff_ffff);
    case ScalarType.UINT32:
    case ScalarType.FIXED32:
      return integer(text, 0, 0xffff_ffff);
    default:
      // Every 64-bit integer has at most 20 characters. The limit bounds the time that BigInt takes.
      return text.length <= 20 && decimal.test(text) ? inRange(type, BigInt(text)) : undefined;
  }
}

/** Browsers from before 2025 do not have it. */
const { rawJSON } = JSON as unknown as { rawJSON?: (text: string) => object };

/** JSON.stringify writes -0 without its sign. */
const negativeZero = rawJSON?.("-0") ?? -0;

/** The number for JSON.stringify of an integer with these digits; where it can't be written exactly, the digits. */
export function integerFromDigits(digits: string): number | object | string {
  const number = Number(digits);
  return Number.isSafeInteger(number) ? number : (rawJSON?.(digits) ?? digits);
}

type ScalarField = DescField & { readonly scalar: ScalarType };

/**
 * Converts a scalar by the proto3 JSON mapping to a value for JSON.stringify. Returns undefined if it is not a value of the
 * field's type.
 */
export function scalarToJson(field: ScalarField, value: unknown): string | number | boolean | object | undefined {
  switch (field.scalar) {
    case ScalarType.STRING:
      return typeof value === "string" ? value : undefined;
    case ScalarType.BOOL:
      return typeof value === "boolean" ? value : undefined;
    case ScalarType.BYTES:
      return value instanceof Uint8Array ? encodeBase64(value) : undefined;
    case ScalarType.DOUBLE:
    case ScalarType.FLOAT:
      return typeof value === "number" ? doubleToJson(field.scalar, value) : undefined;
    case ScalarType.INT32:
    case ScalarType.SINT32:
    case ScalarType.SFIXED32:
      return value === ((value as number) | 0) ? value : undefined;
    case ScalarType.UINT32:
    case ScalarType.FIXED32:
      return value === (value as number) >>> 0 ? value : undefined;
    default:
      return wideIntegerToJson(field, value);
  }
}

function doubleToJson(type: ScalarType, value: number): string | number | object | undefined {
  if (!Number.isFinite(value)) {
    return String(value);
  }
  return Object.is(value, -0) ? negativeZero : inFloatRange(type, value);
}

function wideIntegerToJson(field: ScalarField, value: unknown): string | undefined {
  if ("longAsString" in field && field.longAsString) {
    return typeof value === "string" && scalarFromText(field.scalar, value) !== undefined ? value : undefined;
  }
  return typeof value === "bigint" && inRange(field.scalar, value) !== undefined ? String(value) : undefined;
}

/**
 * The code of a condition under which a variable has the same value of this type in JSON and in memory, so that neither
 * function above needs to be called; undefined if there is no such condition.
 */
export function plainCondition(type: ScalarType | undefined, variable: string): string | undefined {
  const number = `typeof ${variable} === "number"`;
  switch (type) {
    case ScalarType.STRING:
      return `typeof ${variable} === "string"`;
    case ScalarType.BOOL:
      return `typeof ${variable} === "boolean"`;
    case ScalarType.INT32:
    case ScalarType.SINT32:
    case ScalarType.SFIXED32:
      return `${number} && Object.is(${variable}, ${variable} | 0)`;
    case ScalarType.UINT32:
    case ScalarType.FIXED32:
      return `${number} && Object.is(${variable}, ${variable} >>> 0)`;
    case ScalarType.DOUBLE:
      // -0 needs scalarToJson.
      return `Number.isFinite(${variable}) && !Object.is(${variable}, -0)`;
    default:
      return undefined;
  }
}

type ItemsCheck = (items: readonly unknown[]) => boolean;

const no: ItemsCheck = () => false;

const itemsChecks = new Map<string | undefined, ItemsCheck>([[undefined, no]]);

/** True if `plainCondition` is known to hold for all items of a repeated field. Compiled once for each condition. */
export function plainItemsCheck(type: ScalarType | undefined): ItemsCheck {
  const condition = plainCondition(type, "item");
  let check = itemsChecks.get(condition);
  if (check === undefined) {
    check = compile(
      {},
      `return (items) => {
        for (let i = 0; i < items.length; i++) {
          const item = items[i];
          if (!(${condition})) return false;
        }
        return true;
      };`,
      no,
    );
    itemsChecks.set(condition, check);
  }
  return check;
}

/** The number of entries of a map, if `plainCondition` is known to hold for all values; otherwise -1. */
type EntriesCount = (map: object) => number;

const unknown: EntriesCount = () => -1;

const entriesCounts = new Map<string | undefined, EntriesCount>([[undefined, unknown]]);

/** Compiled once for each condition. */
export function plainEntriesCount(type: ScalarType | undefined): EntriesCount {
  const condition = plainCondition(type, "item");
  let count = entriesCounts.get(condition);
  if (count === undefined) {
    count = compile(
      {},
      `return (map) => {
        let count = 0;
        for (const key in map) {
          const item = map[key];
          if (!(${condition})) return -1;
          count++;
        }
        return count;
      };`,
      unknown,
    );
    entriesCounts.set(condition, count);
  }
  return count;
}

/** Longer literals have superfluous zeros. */
const longestLiteral = 64;

/**
 * Returns the digits of a JSON number that is an integer, also if it is written with a fraction or an exponent: "150" for
 * 1.5e2. Returns undefined if it is not an integer, or has more than 20 digits, which no 64-bit integer has.
 */
export function integerDigits(literal: string): string | undefined {
  const [, sign, whole = "", fraction = "", exponent = "0"] =
    (literal.length <= longestLiteral && /^(-?)(0|[1-9]\d*)(?:\.(\d+))?(?:[eE]([+-]?\d+))?$/.exec(literal)) || [];
  const digits = `${whole}${fraction}`.replace(/^0+/, "");
  const significant = digits.replace(/0+$/, "");
  const zeros = digits.length - significant.length + Number(exponent) - fraction.length;
  if (sign === undefined || significant === "") {
    return sign === undefined ? undefined : "0";
  }
  return zeros >= 0 && significant.length + zeros <= 20 ? `${sign}${significant}${"0".repeat(zeros)}` : undefined;
}

function integer(text: string, min: number, max: number): number | undefined {
  const value = decimal.test(text) ? Number(text) : Number.NaN;
  return value >= min && value <= max ? value + 0 : undefined;
}

function inRange(type: ScalarType, value: bigint): bigint | undefined {
  const isUnsigned = type === ScalarType.UINT64 || type === ScalarType.FIXED64;
  return value === (isUnsigned ? BigInt.asUintN(64, value) : BigInt.asIntN(64, value)) ? value : undefined;
}

const largestFloat = 3.4028234663852886e38;

function inFloatRange(type: ScalarType, value: number): number | undefined {
  if (type === ScalarType.FLOAT && Math.abs(value) > largestFloat) {
    // Other implementations print the largest float as 3.4028235e38, which rounds to it.
    const rounded = Math.fround(value);
    return Number.isFinite(rounded) ? rounded : undefined;
  }
  return Number.isFinite(value) ? value : undefined;
}

/** Reads base64 or base64url, with correct padding or without padding. */
function bytesFromText(text: string): Uint8Array | undefined {
  if (!/^[\w+/-]*={0,2}$/.test(text) || (/[-_]/.test(text) && /[+/]/.test(text))) {
    return undefined;
  }
  const padding = text.endsWith("==") ? 2 : text.endsWith("=") ? 1 : 0;
  if (padding > 0 ? text.length % 4 !== 0 : text.length % 4 === 1) {
    return undefined;
  }
  return decodeBase64(text);
}
