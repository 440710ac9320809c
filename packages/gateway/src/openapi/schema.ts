import { type DescEnum, type DescField, type DescMessage, ScalarType } from "@bufbuild/protobuf";
import { canonicalJson, type CompleteJsonOptions, isEmitted, isEmittedAsNull, jsonKey } from "../json/json-options.ts";
import { type EnumNames, enumNames, fieldRule, noFieldRule, protoEnumNames } from "../schema/rules.ts";
import type { Annotations } from "./annotations.ts";
import { type Comments, describe } from "./comments.ts";
import { type Components, createComponents, nestedUse, type SchemaUse } from "./components.ts";
import type { Schema } from "./document.ts";
import { scalarSchema, type SchemaForm, textSchema, wellKnownSchema } from "./scalar-schema.ts";
import { tracksPresence, type Validation } from "./validation.ts";

export type Schemas = {
  /** The schema of a message: a reference to its component, or the schema of a well-known type. */
  message(desc: DescMessage, use: SchemaUse): Schema;
  /** The schema of a field's value outside of its message, such as in a body. */
  value(field: DescField, use: SchemaUse): Schema;
  /** The same in a parameter or a header. Its description lists the values of an enum. */
  parameter(field: DescField, use: SchemaUse): Schema;
  /** True if a request must have the field. */
  isRequired(field: DescField, use: SchemaUse): boolean;
  /** True if a field is described where a parameter could set it. */
  canBeParameter(field: DescField): boolean;
  readonly form: SchemaForm;
  readonly named: Components["refNamed"];
  readonly finish: Components["finish"];
};

export type SchemasOptions = {
  readonly comments: Comments;
  readonly form: SchemaForm;
  readonly annotations: Annotations;
  readonly validation: Validation;
};

/** Creates the schemas of the JSON that messages are read from and written as, with the options of their fields. */
export function createSchemas({ comments, form, annotations, validation }: SchemasOptions): Schemas {
  const isExact = form === "exact";
  /** Requests are read in any spelling. The exact schemas describe them as the proto3 JSON mapping has them. */
  const jsonOf = ({ direction, json }: SchemaUse): CompleteJsonOptions =>
    isExact && direction === "request" ? canonicalJson : json;
  const ruleOf = (field: DescField, { isRpc }: SchemaUse) => (isRpc ? noFieldRule : fieldRule(field));

  const components = createComponents((desc, use) => {
    if (desc.kind === "message") {
      return describeMessage(desc, use);
    }
    const names = enumSchema(desc, use, form, comments, annotations);
    return jsonOf(use).enumAsInteger ? enumNumbers(desc, names, form, annotations) : names;
  }, !isExact);

  const message = (desc: DescMessage, use: SchemaUse): Schema =>
    wellKnownSchema(desc, form, jsonOf(use).int64AsNumber) ?? components.ref(desc, use);

  const plainItem = (field: DescField, use: SchemaUse): Schema => {
    if (field.message !== undefined) {
      return message(field.message, nestedUse(use));
    }
    if (field.enum !== undefined) {
      return field.enum.typeName === "google.protobuf.NullValue"
        ? { type: "null" }
        : components.ref(field.enum, { ...use, omit: [], open: false, partial: "none" });
    }
    const scalar = scalarSchema(field.scalar ?? ScalarType.STRING, form, jsonOf(use).int64AsNumber);
    return field.scalar === ScalarType.STRING && field.proto.options?.debugRedact === true
      ? { ...scalar, format: "password" }
      : scalar;
  };

  const plainValue = (field: DescField, use: SchemaUse): Schema => {
    const item = plainItem(field, use);
    switch (field.fieldKind) {
      case "list":
        return { type: "array", items: item };
      case "map":
        return { type: "object", ...keysOf(field.mapKey), additionalProperties: item };
      default:
        return item;
    }
  };

  /** Adds the rules of a field to the schema of its value. What the service returns is not checked by them. */
  const withRules = (field: DescField, schema: Schema, use: SchemaUse): Schema =>
    isExact && use.direction === "response"
      ? schema
      : validation.constrain(field, schema, !isExact && isEmitted(field, use.json));

  const value = (field: DescField, use: SchemaUse): Schema => withRules(field, plainValue(field, use), use);

  /** Code generators name the type of a reference. A parameter is a name also where JSON has numbers. */
  const enumParameter = (desc: DescEnum, field: DescField, use: SchemaUse): Schema => {
    const inline = enumSchema(desc, use, form, comments, annotations);
    if (isExact || jsonOf(use).enumAsInteger || desc.typeName === "google.protobuf.NullValue") {
      return inline;
    }
    const { description } = field.fieldKind === "list" ? {} : inline;
    return { ...plainItem(field, use), ...(description === undefined ? {} : { description }) };
  };

  const parameter = (field: DescField, use: SchemaUse): Schema => {
    const item =
      field.enum !== undefined
        ? enumParameter(field.enum, field, use)
        : field.message && wellKnownSchema(field.message, form, jsonOf(use).int64AsNumber);
    const schema =
      item === undefined || field.fieldKind === "map"
        ? plainValue(field, use)
        : field.fieldKind === "list"
          ? { type: "array", items: item }
          : item;
    const constrained = withRules(field, textSchema(schema, form), use);
    const description = constrained["description"] as string | undefined;
    return { ...constrained, ...describe(description, ...annotations.behaviorOf(field).notes) };
  };

  const isRequired = (field: DescField, use: SchemaUse): boolean =>
    ruleOf(field, use).required || annotations.isRequired(field, use) || validation.isRequired(field);

  const describeField = (field: DescField, use: SchemaUse): Schema => {
    const rule = ruleOf(field, use);
    const { keywords, notes } = annotations.behaviorOf(field);
    let schema = value(field, use);
    let note = "";
    if (rule.lenient && field.parent.fields.some((other) => ruleOf(other, use).inline)) {
      const other = "value of another type is kept unchanged.";
      const { type } = schema;
      note = isExact || typeof type !== "string" ? `A ${other}` : `Usually of type ${type}; a ${other}`;
      schema = isExact ? { anyOf: [schema, {}] } : {};
    } else if (isExact && use.direction === "request" && !rule.notNull) {
      schema = orNull(schema);
    }
    const text = describe(comments(field), note || (schema["description"] as string | undefined), ...notes);
    return { ...schema, ...text, ...(field.deprecated ? { deprecated: true } : {}), ...keywords };
  };

  const describeMessage = (desc: DescMessage, use: SchemaUse): Schema => {
    const isRequest = use.direction === "request";
    const json = jsonOf(use);
    const described = new Map<string, Schema>();
    const required: string[] = [];
    let others: unknown = isExact && isRequest && !use.open ? false : undefined;
    for (const field of desc.fields.filter((field) => annotations.isVisible(field))) {
      const rule = ruleOf(field, use);
      const isRepresentation = rule.mediaType !== "" && (!isExact || !isRequest);
      if (rule.header !== "" || isRepresentation || use.omit.includes(field.name)) {
        continue;
      }
      if (rule.inline) {
        const inline = value(field, use);
        others = inline["additionalProperties"] ?? true;
        continue;
      }
      const key = jsonKey(field, json);
      const schema = describeField(field, use);
      described.set(key, isEmittedAsNull(field, json) ? orNull(schema) : schema);
      const isAlways =
        (rule.always && !tracksPresence(field)) || isEmitted(field, json) || isEmittedAsNull(field, json);
      if (isRequest ? isRequired(field, use) : isAlways) {
        required.push(key);
      }
    }
    // Object.fromEntries, since a name may be "__proto__".
    const properties = Object.fromEntries(described);
    const oneofs = desc.oneofs
      .map((oneof) => ({
        name: oneof.name,
        keys: oneof.fields.map((field) => jsonKey(field, json)).filter((key) => Object.hasOwn(properties, key)),
        isRequired: validation.isRequiredOneof(oneof) && (isRequest || !isExact),
      }))
      .filter(({ keys }) => keys.length > 1);
    const choices = oneofs.map(
      ({ keys, isRequired }) => `${isRequired ? "Exactly" : "At most"} one of ${listOf(keys)} is set.`,
    );
    const rules = isRequest || !isExact ? validation.notesOf(desc, (name) => keyByName(desc, name, json)) : [];
    return {
      type: "object",
      ...describe(comments(desc), ...(isExact ? [] : choices), ...rules),
      ...(desc.deprecated ? { deprecated: true } : {}),
      ...(Object.keys(properties).length === 0 ? {} : { properties }),
      ...(required.length === 0 ? {} : { required }),
      ...(others === undefined ? {} : { additionalProperties: others }),
      ...(isExact ? exactOneofs(oneofs) : namedOneofs(oneofs)),
    };
  };

  return {
    message,
    value,
    parameter,
    isRequired,
    canBeParameter: (field) => annotations.isVisible(field) && !annotations.isOutputOnly(field),
    form,
    named: components.refNamed,
    finish: components.finish,
  };
}

function keyByName({ fields }: DescMessage, name: string, json: CompleteJsonOptions): string {
  const field = fields.find((each) => each.name === name);
  return field === undefined ? name : jsonKey(field, json);
}

type Oneof = { readonly name: string; readonly keys: readonly string[]; readonly isRequired: boolean };

/** At most one member of each may be set, or exactly one. */
function exactOneofs(oneofs: readonly Oneof[]): Schema {
  const schemas = oneofs.map(({ name, keys, isRequired }) => ({
    oneOf: [
      ...keys.map((key) => ({ title: key, required: [key] })),
      ...(isRequired ? [] : [{ title: `no ${name}`, not: { anyOf: keys.map((key) => ({ required: [key] })) } }]),
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
  const { anyOf, ...rules } = rest;
  const hasRules = Object.keys(rules).length > 0;
  const choices =
    anyOf === undefined || hasRules ? [{ ...(type === undefined ? {} : { type }), ...rest }] : (anyOf as Schema[]);
  return { anyOf: [...choices, { type: "null" }], ...documentation };
}

/** The schema of an enum whose values are names. */
function enumSchema(
  desc: DescEnum,
  { direction, isRpc }: SchemaUse,
  form: SchemaForm,
  comments: Comments,
  { isVisible }: Pick<Annotations, "isVisible">,
): Schema {
  const isExact = form === "exact";
  const { strict, numberOf, nameOf } = namesOf(desc, isRpc);
  const hidden = new Set(desc.values.filter((value) => !isVisible(value)).map(({ number }) => nameOf.get(number)));
  // If values have the `name` option, a value without it represents an unset field, and is not sent.
  const accepted = strict ? new Set(numberOf.keys()) : new Set(nameOf.values());
  const names = (
    direction === "request" || !isExact
      ? [...numberOf.keys()]
      : [...nameOf.values()].filter((name) => accepted.has(name))
  ).filter((name) => !hidden.has(name));
  const lines = desc.values.flatMap((value) => {
    const comment = describe(value.deprecated ? "Deprecated." : undefined, comments(value)).description;
    const name = nameOf.get(value.number);
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
}

function namesOf(desc: DescEnum, isRpc: boolean): EnumNames {
  return isRpc ? protoEnumNames(desc) : enumNames(desc);
}

/** The schema of an enum whose values are numbers, with the documentation of its names. */
function enumNumbers(
  desc: DescEnum,
  { description, deprecated }: Schema,
  form: SchemaForm,
  { isVisible }: Pick<Annotations, "isVisible">,
): Schema {
  const values = desc.values.filter(isVisible);
  const names = new Map(values.toReversed().map(({ number, name }) => [number, name]));
  const numbers = [...new Set(values.map(({ number }) => number))];
  return {
    type: "integer",
    format: "int32",
    ...(description === undefined ? {} : { description }),
    ...(deprecated === undefined ? {} : { deprecated }),
    ...(desc.open && form === "exact" ? {} : { enum: numbers }),
    ...(form === "exact" ? {} : { "x-enum-varnames": numbers.map((number) => names.get(number)) }),
  };
}
