import {
  type DescField,
  type DescMessage,
  type JsonObject,
  type JsonValue,
  ScalarType,
  fromJson,
} from "@bufbuild/protobuf";
import type { Message } from "@bufbuild/protobuf";

/** What makes a message costly. */
export type Shape = {
  readonly name: string;
  /** Fills a text with about so many characters. */
  readonly text: (chars: number) => string;
  /** The number of items of lists and maps. */
  readonly items: number;
  readonly value: (chars: number) => JsonValue;
};

const nested = (depth: number): JsonValue => JSON.parse(`${'{"a":['.repeat(depth)}1${"]}".repeat(depth)}`) as JsonValue;

/** Each with texts and values of up to so many bytes for all fields. */
export const shapes: readonly Shape[] = [
  { name: "nothing", text: () => "", items: 0, value: () => null },
  { name: "long texts", text: (chars) => "x".repeat(chars), items: 1, value: (chars) => "x".repeat(chars) },
  {
    name: "many items",
    text: (chars) => "a".repeat(Math.min(8, chars)),
    items: 2_000,
    value: (chars) => Array.from({ length: chars / 4 }, () => ({})),
  },
  {
    name: "special characters",
    text: (chars) => '\u0000"\\\u2028'.repeat(chars / 12),
    items: 1,
    value: (chars) => Object.fromEntries(Array.from({ length: chars / 24 }, (_, at) => [`__proto__${at}`, '"\\'])),
  },
  {
    name: "separators",
    text: (chars) => "a/.,:@*".repeat(chars / 7),
    items: 1,
    value: (chars) => Array.from({ length: chars / 400 }, () => nested(30)),
  },
];

/** A request of a method. `known` has values of fields by name, such as the id of a node that there is. */
export function costlyMessage(
  message: DescMessage,
  shape: Shape,
  bytes: number,
  known: Readonly<Record<string, string>>,
): Message {
  return fromJson(
    message,
    fill(message, { shape, known, chars: Math.floor(bytes / Math.max(1, countTexts(message))) }, 0),
  );
}

type Filling = { readonly shape: Shape; readonly known: Readonly<Record<string, string>>; readonly chars: number };

const maxDepth = 3;

function countTexts(message: DescMessage, depth = 0): number {
  return depth > maxDepth
    ? 0
    : message.fields.reduce(
        (count, { message: inner }) => count + (inner === undefined ? 1 : countTexts(inner, depth + 1)),
        0,
      );
}

function fill(message: DescMessage, filling: Filling, depth: number): JsonObject {
  const chosen = message.fields
    .filter(({ oneof }) => oneof === undefined)
    .concat(message.oneofs.flatMap(({ fields }) => fields.slice(0, 1)));
  return Object.fromEntries(
    chosen.flatMap((field) => {
      const value = depth > maxDepth ? undefined : valueOf(field, filling, depth);
      return value === undefined ? [] : [[field.jsonName, value] as const];
    }),
  );
}

function valueOf(field: DescField, filling: Filling, depth: number): JsonValue | undefined {
  const { shape, chars } = filling;
  switch (field.fieldKind) {
    case "list": {
      const items = countItems(shape, depth);
      const each = { ...filling, chars: Math.floor(chars / Math.max(1, items)) };
      const item = single(
        field.listKind === "message" ? field.message : field.listKind === "enum" ? "enum" : field.scalar,
        field,
        each,
        depth,
      );
      return item === undefined ? undefined : Array.from({ length: items }, () => item);
    }
    case "map": {
      const items = countItems(shape, depth);
      const each = { ...filling, chars: Math.floor(chars / Math.max(1, items)) };
      const item = single(
        field.mapKind === "message" ? field.message : field.mapKind === "enum" ? "enum" : field.scalar,
        field,
        each,
        depth,
      );
      return item === undefined
        ? undefined
        : Object.fromEntries(Array.from({ length: items }, (_, at) => [`k${at}`, item]));
    }
    case "message":
      return single(field.message, field, filling, depth);
    case "enum":
      return single("enum", field, filling, depth);
    default:
      return single(field.scalar, field, filling, depth);
  }
}

/** Of a list in a list, few. */
function countItems({ items }: Shape, depth: number): number {
  return depth === 0 ? items : Math.min(items, 2);
}

function single(
  type: DescMessage | ScalarType | "enum",
  { name, enum: values }: DescField,
  filling: Filling,
  depth: number,
): JsonValue | undefined {
  const { shape, known, chars } = filling;
  // The end of a period would leave nothing in a list, as would many values of a filter.
  if (/^(?:end|until|before)/.test(name) || (type === "enum" && shape.items === 0)) {
    return undefined;
  }
  if (type === "enum") {
    return values?.values[1]?.name;
  }
  if (typeof type === "object") {
    return wellKnown(type.typeName, filling) ?? fill(type, filling, depth + 1);
  }
  switch (type) {
    case ScalarType.STRING:
      return known[name] ?? shape.text(chars);
    case ScalarType.BYTES:
      return Buffer.alloc((chars * 3) / 4).toString("base64");
    case ScalarType.BOOL:
      return false;
    default:
      return name === "page_size" ? 1_000 : 0;
  }
}

function wellKnown(typeName: string, { shape, chars }: Filling): JsonValue | undefined {
  switch (typeName) {
    case "google.protobuf.Timestamp":
      return "2020-01-01T00:00:00Z";
    case "google.protobuf.Value":
      return shape.value(chars);
    case "google.protobuf.ListValue":
      return [shape.value(chars)];
    case "google.protobuf.Struct":
      return { a: shape.value(chars) };
    default:
      return undefined;
  }
}
