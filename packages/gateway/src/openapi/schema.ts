import { ScalarType, type DescEnum, type DescField, type DescMessage } from "@bufbuild/protobuf";
import { FeatureSet_FieldPresence } from "@bufbuild/protobuf/wkt";
import { canonicalJson, isEmitted, isEmittedAsNull, jsonKey, type CompleteJsonOptions } from "../json/json-options.ts";
import { enumNames, fieldRule } from "../schema/rules.ts";
import type { Comments } from "./comments.ts";
import { createComponents, type Components, type SchemaUse } from "./components.ts";
import type { Schema } from "./document.ts";
import { scalarSchema, type SchemaForm, wellKnownSchema } from "./scalar-schema.ts";

export type Schemas = {
  /** The schema of a message: a reference to its component, or the schema of a well-known type. */
  message(desc: DescMessage, use: SchemaUse): Schema;
  /** The schema of a field's value outside of its message, such as in a body or a parameter. */
  value(field: DescField, use: SchemaUse): Schema;
  /** The schema of an enum, inline. */
  enumValues(desc: DescEnum, direction: SchemaUse["direction"]): Schema;
  /** The schema of a well-known type with a special JSON form; undefined for all other messages. */
  wellKnown(desc: DescMessage): Schema | undefined;
  readonly form: SchemaForm;
  readonly named: Components["refNamed"];
  readonly finish: Components["finish"];
};

/** Creates the schemas of the JSON that messages are read from and written as, with the options of their fields. */
export function createSchemas(
  comments: Comments,
  jsonOptions: CompleteJsonOptions = canonicalJson,
  form: SchemaForm = "simple",
): Schemas {
  const isExact = form === "exact";
  /** Requests are read in any spelling. The exact schemas describe them as the proto3 JSON mapping has them. */
  const jsonOf = ({ direction }: SchemaUse): CompleteJsonOptions =>
    isExact && direction === "request" ? canonicalJson : jsonOptions;
  const components = createComponents((desc, use) => {
    if (desc.kind === "message") {
      return describeMessage(desc, use);
    }
    const names = enumValues(desc, use.direction);
    return jsonOf(use).enumAsInteger ? enumNumbers(desc, names, form) : names;
  }, !isExact);

  const wellKnown = (desc: DescMessage): Schema | undefined => wellKnownSchema(desc, form);

  const message = (desc: DescMessage, use: SchemaUse): Schema => wellKnown(desc) ?? components.ref(desc, use);

  const value = (field: DescField, use: SchemaUse): Schema => {
    // Omitted fields are those of the outer message only.
    const inner = { ...use, omit: [], suffix: use.suffix.replace("Body", "Input") };
    const item = (): Schema => {
      if (field.message !== undefined) {
        return message(field.message, inner);
      }
      if (field.enum !== undefined) {
        return field.enum.typeName === "google.protobuf.NullValue"
          ? { type: "null" }
          : components.ref(field.enum, { ...inner, open: false, suffix: inner.suffix.replace("Open", "") });
      }
      const scalar = scalarSchema(field.scalar ?? ScalarType.STRING, form);
      return field.scalar === ScalarType.STRING && field.proto.options?.debugRedact === true
        ? { ...scalar, format: "password" }
        : scalar;
    };
    switch (field.fieldKind) {
      case "list":
        return { type: "array", items: item() };
      case "map":
        return { type: "object", ...keysOf(field.mapKey), additionalProperties: item() };
      default:
        return item();
    }
  };

  const enumValues = (desc: DescEnum, direction: SchemaUse["direction"]): Schema => {
    const { strict, numberOf, nameOf } = enumNames(desc);
    // If values have the `name` option, a value without it represents an unset field, and is not sent.
    const accepted = strict ? new Set(numberOf.keys()) : new Set(nameOf.values());
    const names =
      direction === "request" || !isExact
        ? [...numberOf.keys()]
        : [...nameOf.values()].filter((name) => accepted.has(name));
    const lines = desc.values.flatMap((each) => {
      const comment = comments(each);
      const name = nameOf.get(each.number);
      return comment === undefined || name === undefined || !names.includes(name)
        ? []
        : [`- \`${name}\`: ${comment.replaceAll(/\s+/g, " ")}`];
    });
    const documentation = {
      ...describe(comments(desc), lines.join("\n")),
      ...(desc.deprecated ? { deprecated: true } : {}),
    };
    if (strict || !desc.open || !isExact) {
      return { type: "string", ...documentation, enum: names };
    }
    // An unknown value, such as one of a newer .proto, is a number.
    return {
      ...documentation,
      anyOf: [
        { type: "string", enum: names },
        { type: "integer", format: "int32" },
      ],
    };
  };

  const describeField = (field: DescField, use: SchemaUse): Schema => {
    const rule = fieldRule(field);
    let schema = value(field, use);
    let note = "";
    if (rule.lenient && field.parent.fields.some((other) => fieldRule(other).inline)) {
      const other = "value of another type is kept unchanged.";
      const { type } = schema;
      note = isExact || typeof type !== "string" ? `A ${other}` : `Usually of type ${type}; a ${other}`;
      schema = isExact ? { anyOf: [schema, {}] } : {};
    } else if (isExact && use.direction === "request" && !rule.notNull) {
      schema = orNull(schema);
    }
    const text = describe(comments(field), note || (schema["description"] as string | undefined));
    return { ...schema, ...text, ...(field.deprecated ? { deprecated: true } : {}) };
  };

  const describeMessage = (desc: DescMessage, use: SchemaUse): Schema => {
    const described = new Map<string, Schema>();
    const required: string[] = [];
    let others: unknown = isExact && use.direction === "request" && !use.open ? false : undefined;
    for (const field of desc.fields) {
      const rule = fieldRule(field);
      const isRepresentation = rule.mediaType !== "" && (!isExact || use.direction === "response");
      if (rule.header !== "" || isRepresentation || use.omit.includes(field.name)) {
        continue;
      }
      if (rule.inline) {
        const inline = value(field, use);
        others = inline["additionalProperties"] ?? true;
        continue;
      }
      const json = jsonOf(use);
      const key = jsonKey(field, json);
      const schema = describeField(field, use);
      described.set(key, isEmittedAsNull(field, json) ? orNull(schema) : schema);
      const isAlways = (rule.always && !canBeAbsent(field)) || isEmitted(field, json) || isEmittedAsNull(field, json);
      if (use.direction === "request" ? rule.required : isAlways) {
        required.push(key);
      }
    }
    // Object.fromEntries, since a name may be "__proto__".
    const properties = Object.fromEntries(described);
    const oneofs = desc.oneofs
      .map(({ name, fields }) => ({
        name,
        keys: fields.map((field) => jsonKey(field, jsonOf(use))).filter((key) => Object.hasOwn(properties, key)),
      }))
      .filter(({ keys }) => keys.length > 1);
    const choices = isExact ? [] : oneofs.map(({ keys }) => `At most one of ${listOf(keys)} is set.`);
    return {
      type: "object",
      ...describe(comments(desc), ...choices),
      ...(desc.deprecated ? { deprecated: true } : {}),
      ...(Object.keys(properties).length === 0 ? {} : { properties }),
      ...(required.length === 0 ? {} : { required }),
      ...(others === undefined ? {} : { additionalProperties: others }),
      ...(isExact ? exactOneofs(oneofs) : namedOneofs(oneofs)),
    };
  };

  return { message, value, enumValues, wellKnown, form, named: components.refNamed, finish: components.finish };
}

/** Whether a field with the `always` option can still be omitted because it has presence. */
function canBeAbsent(field: DescField): boolean {
  const isCollection = field.fieldKind === "list" || field.fieldKind === "map";
  return !isCollection && (field.oneof !== undefined || field.presence !== FeatureSet_FieldPresence.IMPLICIT);
}

type Oneof = { readonly name: string; readonly keys: readonly string[] };

/** At most one member of each may be set. */
function exactOneofs(oneofs: readonly Oneof[]): Schema {
  const schemas = oneofs.map(({ name, keys }) => ({
    oneOf: [
      ...keys.map((key) => ({ title: key, required: [key] })),
      { title: `no ${name}`, not: { anyOf: keys.map((key) => ({ required: [key] })) } },
    ],
  }));
  const [first, ...more] = schemas;
  return first === undefined ? {} : more.length === 0 ? first : { allOf: schemas };
}

/** A vendor extension, since generators leave out the properties beside `oneOf`. */
function namedOneofs(oneofs: readonly Oneof[]): Schema {
  return oneofs.length === 0 ? {} : { "x-oneofs": Object.fromEntries(oneofs.map(({ name, keys }) => [name, keys])) };
}

function listOf(keys: readonly string[]): string {
  const quoted = keys.map((key) => `\`${key}\``);
  return `${quoted.slice(0, -1).join(", ")} and ${quoted.at(-1)}`;
}

/** The schema of an enum whose values are numbers, with the documentation of that of names. */
function enumNumbers(desc: DescEnum, { description, deprecated }: Schema, form: SchemaForm): Schema {
  const names = new Map(desc.values.toReversed().map(({ number, name }) => [number, name]));
  const numbers = [...new Set(desc.values.map(({ number }) => number))];
  return {
    type: "integer",
    format: "int32",
    ...(description === undefined ? {} : { description }),
    ...(deprecated === undefined ? {} : { deprecated }),
    ...(desc.open && form === "exact" ? {} : { enum: numbers }),
    ...(form === "exact" ? {} : { "x-enum-varnames": numbers.map((number) => names.get(number)) }),
  };
}

/** The constraint on the keys of a map, which are strings in JSON. */
function keysOf(type: ScalarType): Schema {
  if (type === ScalarType.STRING) {
    return {};
  }
  return { propertyNames: type === ScalarType.BOOL ? { enum: ["true", "false"] } : { pattern: "^-?[0-9]+$" } };
}

function orNull(schema: Schema): Schema {
  const { type, description, ...rest } = schema;
  if (schema["$ref"] === undefined && type === undefined && schema["anyOf"] === undefined) {
    return schema;
  }
  const documentation = description === undefined ? {} : { description };
  if (typeof type === "string" && type !== "null" && schema["enum"] === undefined) {
    return { type: [type, "null"], ...rest, ...documentation };
  }
  if (type === "null") {
    return schema;
  }
  const choices = (rest["anyOf"] as Schema[] | undefined) ?? [{ ...(type === undefined ? {} : { type }), ...rest }];
  return { anyOf: [...choices, { type: "null" }], ...documentation };
}

export function describe(...paragraphs: (string | undefined)[]): { description?: string } {
  const text = paragraphs.filter((each) => each !== undefined && each !== "").join("\n\n");
  return text === "" ? {} : { description: text };
}
