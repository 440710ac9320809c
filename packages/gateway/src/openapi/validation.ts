import {
  ScalarType,
  type DescField,
  type DescMessage,
  type DescOneof,
  type JsonObject,
  type JsonValue,
} from "@bufbuild/protobuf";
import { FeatureSet_FieldPresence } from "@bufbuild/protobuf/wkt";
import { isObject } from "../json/object.ts";
import { snakeCase } from "../json/well-known.ts";
import { describe } from "./comments.ts";
import type { Schema } from "./document.ts";
import type { ReadOption } from "./named-options.ts";

/**
 * The form of protovalidate rules: keywords of schemas, with descriptions where there are none; descriptions only; or
 * nothing.
 */
export type ValidationForm = "keywords" | "descriptions" | "none";

/** The rules of protovalidate (buf.validate), as parts of schemas. */
export type Validation = {
  /** Adds the rules of a field to the schema of its value. `emitsZero`: whether the JSON can have the zero value without its being set. */
  constrain(field: DescField, schema: Schema, emitsZero: boolean): Schema;
  isRequired(field: DescField): boolean;
  isRequiredOneof(oneof: DescOneof): boolean;
  /** The rules of a whole message. `keyOf` returns the JSON key of a field by its name in the .proto. */
  notesOf(message: DescMessage, keyOf: (name: string) => string): string[];
};

/** The keywords of a rule, by its value and the other rules of its type; undefined if there are none, so that it is described. */
type Keywords = (value: JsonValue, rules: JsonObject) => Schema | undefined;

const limit =
  (...keywords: string[]): Keywords =>
  (value) =>
    Object.fromEntries(keywords.map((keyword) => [keyword, Number(value)]));
const flag =
  (schema: Schema): Keywords =>
  (value) =>
    value === true ? schema : {};
const equal: Keywords = (value) => ({ enum: [value] });
const oneOf: Keywords = (values) => ({ enum: values });
const examples: Keywords = (values) => ({ examples: values });
const matching =
  (format: (text: string) => string): Keywords =>
  (value) => ({ pattern: format((value as string).replaceAll(/[\\^$.*+?()[\]{}|]/g, "\\$&")) });

const bound =
  (keyword: string, shift: number = 0): Keywords =>
  (value, { gt, gte, lt, lte }) => {
    const [lower = gte, upper = lte] = [gt, lt];
    // With an upper bound below the lower one, the values are those outside of the range.
    const isOutside = lower !== undefined && upper !== undefined && Number(upper) < Number(lower);
    return isOutside || !Number.isFinite(value) ? undefined : { [keyword]: Number(value) + shift };
  };
const finite =
  (keywords: Keywords): Keywords =>
  (value, rules) =>
    [value].flat().every((each) => Number.isFinite(each)) ? keywords(value, rules) : undefined;

const texts = { const: equal, in: oneOf, example: examples };
const numbers = {
  const: finite(equal),
  in: finite(oneOf),
  example: finite(examples),
  lte: bound("maximum"),
  gte: bound("minimum"),
};
const floats = { ...numbers, lt: bound("exclusiveMaximum"), gt: bound("exclusiveMinimum") };
const integers = { ...numbers, lt: bound("maximum", -1), gt: bound("minimum", 1) };

/** The rules that have keywords, by type and JSON name. Lengths in bytes have none, and 64-bit integers are strings in JSON. */
const keywordsOf: Readonly<Record<string, Readonly<Record<string, Keywords>>>> = {
  string: {
    ...texts,
    len: limit("minLength", "maxLength"),
    minLen: limit("minLength"),
    maxLen: limit("maxLength"),
    pattern: (value) => (isPortable(value as string) ? { pattern: value } : undefined),
    prefix: matching((text) => `^${text}`),
    suffix: matching((text) => `${text}$`),
    contains: matching((text) => text),
    email: flag({ format: "email" }),
    hostname: flag({ format: "hostname" }),
    ipv4: flag({ format: "ipv4" }),
    ipv6: flag({ format: "ipv6" }),
    uri: flag({ format: "uri" }),
    uriRef: flag({ format: "uri-reference" }),
    uuid: flag({ format: "uuid" }),
    tuuid: flag({ pattern: "^[0-9a-fA-F]{32}$" }),
    ulid: flag({ pattern: "^[0-7][0-9A-HJKMNP-TV-Za-hjkmnp-tv-z]{25}$" }),
  },
  float: floats,
  double: floats,
  int32: integers,
  uint32: integers,
  sint32: integers,
  fixed32: integers,
  sfixed32: integers,
  int64: texts,
  uint64: texts,
  sint64: texts,
  fixed64: texts,
  sfixed64: texts,
  bytes: { example: examples },
  repeated: { minItems: limit("minItems"), maxItems: limit("maxItems"), unique: flag({ uniqueItems: true }) },
  map: { minPairs: limit("minProperties"), maxPairs: limit("maxProperties") },
  duration: { example: examples },
  timestamp: { example: examples },
  fieldMask: { example: examples },
  // What has no keywords with a reference to the enum.
  enum: { definedOnly: () => ({}), example: () => ({}) },
};

/** The rules for the items of a list and for the keys and values of a map, with the keyword of their schema. */
const nestedRules: Readonly<Record<string, string>> = {
  items: "items",
  keys: "propertyNames",
  values: "additionalProperties",
};

/** Keywords of which a schema can have stricter ones already. */
const stricter: Readonly<Record<string, (one: number, other: number) => number>> = {
  minLength: Math.max,
  maxLength: Math.min,
  minimum: Math.max,
  maximum: Math.min,
  minItems: Math.max,
  minProperties: Math.max,
};

const rejectsZero: Readonly<Record<string, (limit: unknown) => boolean>> = {
  minLength: (limit) => Number(limit) > 0,
  minItems: (limit) => Number(limit) > 0,
  minProperties: (limit) => Number(limit) > 0,
  minimum: (limit) => Number(limit) > 0,
  maximum: (limit) => Number(limit) < 0,
  exclusiveMinimum: (limit) => Number(limit) >= 0,
  exclusiveMaximum: (limit) => Number(limit) <= 0,
  pattern: (pattern) => !new RegExp(String(pattern), "u").test(""),
  format: () => true,
  enum: (values) => !(values as unknown[]).some((value) => value === "" || value === 0 || value === "0"),
};

export function createValidation(readOption: ReadOption, form: ValidationForm): Validation {
  const read = (desc: DescField | DescMessage | DescOneof): JsonObject => {
    const rules = form === "none" ? undefined : readOption(desc, `buf.validate.${desc.kind}`);
    return isObject(rules) && rules["ignore"] !== "IGNORE_ALWAYS" ? rules : {};
  };

  const keywordsFor = (type: string, name: string, value: JsonValue, rules: JsonObject): Schema | undefined =>
    form === "keywords" ? keywordsOf[type]?.[name]?.(value, rules) : undefined;

  /** Adds the rules of a value, and of its items, keys and values. */
  const constrain = (schema: Schema, rules: JsonObject, field: DescField, allowsZero: boolean): Schema => {
    const notes: string[] = [];
    let constrained = schema;
    const ofType = Object.entries(rules).flatMap(([type, own]) =>
      isObject(own) ? Object.entries(own).map(([name, value]) => ({ type, own, name, value })) : [],
    );
    for (const { type, own, name, value } of ofType) {
      const nested = nestedRules[name];
      // Keys of every type are strings in JSON, so that only rules of strings fit.
      if (nested !== undefined && isObject(value) && (name !== "keys" || value["string"] !== undefined)) {
        const inner = constrain((constrained[nested] ?? {}) as Schema, value, field, skipsZero(value));
        constrained = { ...constrained, [nested]: inner };
        continue;
      }
      const keywords = keywordsFor(type, name, value, own);
      const added = keywords && withKeywords(constrained, keywords, allowsZero || skipsZero(rules));
      if (added === undefined) {
        notes.push(`Must satisfy \`${type}.${snakeCase(name)} = ${JSON.stringify(namesOf(field, type, value))}\`.`);
      }
      constrained = added ?? constrained;
    }
    const before = constrained["description"] as string | undefined;
    return { ...constrained, ...describe(before, ...notes, ...notesOfCel(rules)) };
  };

  return {
    constrain(field, schema, emitsZero) {
      const rules = read(field);
      const constrained = constrain(schema, rules, field, emitsZero);
      if (rules["required"] !== true) {
        return constrained;
      }
      const keywords = form === "keywords" && !emitsZero ? nonZeroOf(field) : undefined;
      const before = constrained["description"] as string | undefined;
      const notes = [
        form === "keywords" ? undefined : "Required in requests.",
        keywords === undefined && !tracksPresence(field) ? "Must not be empty, 0 or false." : undefined,
      ];
      const required = (keywords && withKeywords(constrained, keywords, false)) ?? constrained;
      return { ...required, ...describe(before, ...notes) };
    },
    isRequired: (field) => form === "keywords" && read(field)["required"] === true,
    isRequiredOneof: (oneof) => read(oneof)["required"] === true,
    notesOf(message, keyOf) {
      const rules = read(message);
      const oneofs = ((rules["oneof"] ?? []) as { fields?: string[]; required?: boolean }[]).map(
        ({ fields = [], required }) =>
          `${required === true ? "Exactly" : "At most"} one of ${fields.map((name) => `\`${keyOf(name)}\``).join(", ")} is set.`,
      );
      return [...oneofs, ...notesOfCel(rules)];
    },
  };
}

/** The schema with further keywords; undefined if it has them already, so that only one description can have both. */
function withKeywords(schema: Schema, keywords: Schema, allowsZero: boolean): Schema | undefined {
  const combined = { ...schema };
  for (const [keyword, value] of Object.entries(keywords)) {
    const before = schema[keyword];
    const tighten = stricter[keyword];
    if (allowsZero && rejectsZero[keyword]?.(value) === true) {
      return undefined;
    }
    if (before !== undefined && tighten === undefined && keyword !== "format" && keyword !== "examples") {
      return undefined;
    }
    combined[keyword] =
      before !== undefined && tighten !== undefined ? tighten(before as number, value as number) : value;
  }
  return combined;
}

function skipsZero(rules: JsonValue): boolean {
  return isObject(rules) && rules["ignore"] === "IGNORE_IF_ZERO_VALUE";
}

/** True if a field can be unset, and not only have its zero value. */
export function tracksPresence({ fieldKind, presence }: DescField): boolean {
  return fieldKind !== "list" && fieldKind !== "map" && presence !== FeatureSet_FieldPresence.IMPLICIT;
}

/** The keywords for a required field, which must not have its zero value if it can't be unset; undefined if there are none. */
function nonZeroOf(field: DescField): Schema | undefined {
  if (field.fieldKind === "list") {
    return { minItems: 1 };
  }
  if (field.fieldKind === "map") {
    return { minProperties: 1 };
  }
  const isText = field.scalar === ScalarType.STRING || field.scalar === ScalarType.BYTES;
  return isText && !tracksPresence(field) ? { minLength: 1 } : undefined;
}

/** The sentences of CEL rules: their message, else the expression. */
function notesOfCel({ cel = [], celExpression = [] }: JsonObject): string[] {
  const rules = cel as { message?: string; expression?: string }[];
  return [
    ...rules.map(({ message = "", expression = "" }) => (message === "" ? `Must satisfy \`${expression}\`.` : message)),
    ...(celExpression as string[]).map((expression) => `Must satisfy \`${expression}\`.`),
  ];
}

/** The names of enum values, which the rules have the numbers of. */
function namesOf(field: DescField, type: string, value: JsonValue): JsonValue {
  if (type !== "enum" || field.enum === undefined || typeof value === "boolean") {
    return value;
  }
  const nameOf = (number: JsonValue): JsonValue => field.enum?.value[Number(number)]?.name ?? number;
  return Array.isArray(value) ? value.map(nameOf) : nameOf(value);
}

/** True if a pattern of RE2 is one of ECMA-262 too, with the same meaning. */
function isPortable(pattern: string): boolean {
  try {
    return new RegExp(pattern, "u").source !== "" && !/\(\?[a-z-]+:/.test(pattern);
  } catch {
    return false;
  }
}
