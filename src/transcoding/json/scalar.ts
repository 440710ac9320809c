import { ScalarType } from "@bufbuild/protobuf";
import { base64Decode, base64Encode } from "@bufbuild/protobuf/wire";

/** What a scalar of this type is called where someone is told to send one. */
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

const decimal = /^-?(?:0|[1-9]\d*)$/;
const float = /^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?$/;

/** Reads a scalar from JSON by the proto3 JSON mapping, but strict; undefined: it does not fit. */
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
          : undefined;
    default:
      if (typeof value === "number") {
        // Beyond 2^53 the number that was written is not known any more.
        return Number.isSafeInteger(value) ? scalarFromText(type, String(value)) : undefined;
      }
      return typeof value === "string" ? scalarFromText(type, value) : undefined;
  }
}

/** Reads a scalar from a parameter: strict decimals, `true` and `false`, base64; undefined: it does not fit. */
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
    case ScalarType.INT64:
    case ScalarType.SINT64:
    case ScalarType.SFIXED64:
      return bigInteger(text, -(2n ** 63n), 2n ** 63n - 1n);
    case ScalarType.UINT64:
    case ScalarType.FIXED64:
      return bigInteger(text, 0n, 2n ** 64n - 1n);
  }
}

/** Writes a scalar by the proto3 JSON mapping. */
export function scalarToJson(value: Scalar): string | number | boolean {
  switch (typeof value) {
    case "bigint":
      return String(value);
    case "number":
      return Number.isFinite(value) ? value : String(value);
    case "object":
      return base64Encode(value);
    default:
      return value;
  }
}

function integer(text: string, min: number, max: number): number | undefined {
  const value = decimal.test(text) ? Number(text) : Number.NaN;
  return value >= min && value <= max ? value + 0 : undefined;
}

function bigInteger(text: string, min: bigint, max: bigint): bigint | undefined {
  // 20 characters hold every 64-bit integer; longer ones would only cost time.
  const value = decimal.test(text) && text.length <= 20 ? BigInt(text) : undefined;
  return value !== undefined && value >= min && value <= max ? value : undefined;
}

function inFloatRange(type: ScalarType, value: number): number | undefined {
  const largest = type === ScalarType.FLOAT ? 3.4028234663852886e38 : Number.MAX_VALUE;
  return Math.abs(value) <= largest ? value : undefined;
}

function bytesFromText(text: string): Uint8Array | undefined {
  if (!/^(?:[A-Za-z0-9+/]*|[A-Za-z0-9_-]*)={0,2}$/.test(text)) {
    return undefined;
  }
  try {
    return base64Decode(text.replaceAll("-", "+").replaceAll("_", "/"));
  } catch {
    return undefined;
  }
}
