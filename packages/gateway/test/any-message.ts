import {
  create,
  createRegistry,
  fromJson,
  ScalarType,
  type DescField,
  type DescMessage,
  type JsonValue,
  type Message,
} from "@bufbuild/protobuf";
import {
  anyPack,
  AnySchema,
  DurationSchema,
  EmptySchema,
  FieldMaskSchema,
  Int64ValueSchema,
  isWrapperDesc,
  ListValueSchema,
  StructSchema,
  TimestampSchema,
  ValueSchema,
} from "@bufbuild/protobuf/wkt";
import * as fc from "fast-check";
import { BodiesSchema, QueryMsgSchema } from "./gen/t/v1/vectors_pb.ts";
import { codePoint } from "./code-point.ts";

/** Arbitrary messages with at most eight fields, including extreme values; without google.api.HttpBody. */
export function anyMessage(
  desc: DescMessage,
  { depth = 2, without = () => false }: { depth?: number; without?: (field: DescField) => boolean } = {},
): fc.Arbitrary<Message> {
  const fields = desc.fields.filter((field) => field.oneof === undefined && canMake(field, depth) && !without(field));
  const members = desc.oneofs.flatMap((oneof) => [
    [oneof.localName, oneof.fields.filter((field) => canMake(field, depth) && !without(field))] as const,
  ]);
  const arbitraries: Record<string, fc.Arbitrary<unknown>> = {};
  for (const field of fields) {
    arbitraries[field.localName] = anyField(field, { depth, without });
  }
  for (const [name, choices] of members) {
    if (choices.length > 0) {
      arbitraries[name] = fc.oneof(
        ...choices.map((field) =>
          anyField(field, { depth, without }).map((value) => ({ case: field.localName, value })),
        ),
      );
    }
  }
  const names = Object.keys(arbitraries);
  return fc
    .subarray(names, { maxLength: Math.min(8, names.length) })
    .chain((some) =>
      fc.record(Object.fromEntries(some.map((name) => [name, arbitraries[name] as fc.Arbitrary<unknown>]))),
    )
    .map((values) => create(desc, values as Record<string, unknown>));
}

type Limits = { depth: number; without: (field: DescField) => boolean };

function canMake({ message }: DescField, depth: number): boolean {
  return (
    message === undefined ||
    (message.typeName.startsWith("google.protobuf.") ? true : message.typeName !== "google.api.HttpBody" && depth > 0)
  );
}

function anyField(field: DescField, limits: Limits): fc.Arbitrary<unknown> {
  const item = anyItem(field, limits);
  if (field.fieldKind === "list") {
    return fc.array(item, { maxLength: 4 });
  }
  if (field.fieldKind === "map") {
    return fc.dictionary(anyScalar(field.mapKey).map(String), item, { maxKeys: 3 });
  }
  return item;
}

function anyItem(field: DescField, limits: Limits): fc.Arbitrary<unknown> {
  const { message } = field;
  if (field.enum !== undefined) {
    return fc.oneof(fc.constantFrom(...field.enum.values.map(({ number }) => number)), fc.integer());
  }
  if (message === undefined) {
    return anyScalar(field.scalar);
  }
  if (isWrapperDesc(message) && field.fieldKind === "message" && field.oneof === undefined) {
    // A singular wrapper field has the type of the wrapped value.
    return anyScalar(message.fields[0].scalar);
  }
  return anyMessageItem(message, limits);
}

function anyMessageItem(message: DescMessage, limits: Limits): fc.Arbitrary<unknown> {
  if (isWrapperDesc(message)) {
    return anyScalar(message.fields[0].scalar).map((value) => create(message, { value }));
  }
  const json = fc
    .jsonValue({ maxDepth: 2 })
    // JSON.stringify does not write -0.
    .map((value) => JSON.parse(JSON.stringify(value)) as JsonValue);
  switch (message.typeName) {
    case AnySchema.typeName:
      return anyAny(limits);
    case TimestampSchema.typeName:
      return fc
        .record({ seconds: fc.bigInt(-62_135_596_800n, 253_402_300_799n), nanos: anyNanos })
        .map((value) => create(TimestampSchema, value));
    case DurationSchema.typeName:
      return fc
        .record({ seconds: fc.bigInt(0n, 315_575_999_999n), nanos: anyNanos, sign: fc.constantFrom(1, -1) })
        .map(({ seconds, nanos, sign }) =>
          create(DurationSchema, { seconds: seconds * BigInt(sign), nanos: nanos * sign + 0 }),
        );
    case FieldMaskSchema.typeName:
      return fc
        .array(fc.stringMatching(/^[a-z]{1,4}(?:_[a-z]{1,3}){0,2}(?:\.[a-z]{1,3})?$/), { maxLength: 3 })
        .map((paths) => create(FieldMaskSchema, { paths }));
    case "google.protobuf.Struct":
      return fc.dictionary(fc.string(), json, { maxKeys: 3 });
    case ListValueSchema.typeName:
      return fc.array(json, { maxLength: 3 }).map((value) => fromJson(ListValueSchema, value));
    case ValueSchema.typeName:
      return json.map((value) => fromJson(ValueSchema, value));
    default:
      return anyMessage(message, { ...limits, depth: limits.depth - 1 });
  }
}

const packed: readonly DescMessage[] = [
  DurationSchema,
  FieldMaskSchema,
  Int64ValueSchema,
  ListValueSchema,
  StructSchema,
  TimestampSchema,
  ValueSchema,
];

/** The types in an Any of these messages. */
export const anyTypes = createRegistry(...packed, AnySchema, EmptySchema, QueryMsgSchema, BodiesSchema);

function anyAny(limits: Limits): fc.Arbitrary<Message> {
  const choices = limits.depth > 0 ? [...packed, AnySchema, QueryMsgSchema, BodiesSchema] : packed;
  const deeper = { ...limits, depth: limits.depth - 1 };
  return fc.oneof(
    fc.constant(create(AnySchema)),
    fc.constant(anyPack(EmptySchema, create(EmptySchema))),
    ...choices.map((desc) =>
      anyMessageItem(desc, deeper).map((value) =>
        // The value of a Struct field is a plain JSON object.
        anyPack(desc, desc === StructSchema ? fromJson(desc, value as JsonValue) : (value as Message)),
      ),
    ),
  );
}

const anyNanos = fc.oneof(fc.constantFrom(0, 1, 500_000_000, 999_999_999), fc.nat(999_999_999));

/** Percent signs, slashes, delimiters of queries, and characters of one to four bytes. */
const anyText = fc.oneof(
  fc.string({ unit: codePoint, maxLength: 8 }),
  fc
    .array(fc.constantFrom("%", "%2F", "/", "+", " ", "&", "=", "?", "#", ":", ".", "[", "]", "ü", "世", "😀", "\0"), {
      maxLength: 6,
    })
    .map((parts) => parts.join("")),
);

function anyScalar(type: ScalarType): fc.Arbitrary<string | number | bigint | boolean | Uint8Array> {
  switch (type) {
    case ScalarType.STRING:
      return anyText;
    case ScalarType.BYTES:
      return fc.uint8Array({ maxLength: 8 });
    case ScalarType.BOOL:
      return fc.boolean();
    case ScalarType.DOUBLE:
      return fc.double();
    case ScalarType.FLOAT:
      return fc.float();
    case ScalarType.INT32:
    case ScalarType.SINT32:
    case ScalarType.SFIXED32:
      return fc.oneof(fc.constantFrom(-(2 ** 31), 2 ** 31 - 1, 0), fc.integer());
    case ScalarType.UINT32:
    case ScalarType.FIXED32:
      return fc.oneof(fc.constantFrom(2 ** 32 - 1, 0), fc.nat(2 ** 31 - 1));
    case ScalarType.INT64:
    case ScalarType.SINT64:
    case ScalarType.SFIXED64:
      return fc.oneof(
        fc.constantFrom(-(2n ** 63n), 2n ** 63n - 1n, 2n ** 53n + 1n, 0n),
        fc.bigInt(-(2n ** 63n), 2n ** 63n - 1n),
      );
    case ScalarType.UINT64:
    case ScalarType.FIXED64:
      return fc.oneof(fc.constantFrom(2n ** 64n - 1n, 2n ** 63n, 0n), fc.bigInt(0n, 2n ** 64n - 1n));
  }
}
