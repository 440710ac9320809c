import { ScalarType, type DescEnum, type DescField, type DescMessage, type DescOneof } from "@bufbuild/protobuf";
import { FeatureSet_FieldPresence } from "@bufbuild/protobuf/wkt";
import { enumNames, fieldRule } from "../schema/rules.ts";
import type { Comments } from "./comments.ts";
import { createComponents, type Components, type Form } from "./components.ts";
import type { Schema } from "./document.ts";
import { scalarSchema, wellKnownSchema } from "./scalar-schema.ts";

export type Schemas = {
  /** Of a whole message: a reference to its component, or what a well-known type is in JSON. */
  message(desc: DescMessage, form: Form): Schema;
  /** Of a field's value, as it stands alone: a body, a parameter. */
  value(field: DescField, form: Form): Schema;
  /** Of an enum's values, spelled out where it stands. */
  enumValues(desc: DescEnum, direction: Form["direction"]): Schema;
  readonly named: Components["refNamed"];
  readonly finish: Components["finish"];
};

/** Compiles the JSON that messages are read from and written as; what is said of a field follows its options. */
export function createSchemas(comments: Comments): Schemas {
  const components = createComponents((desc, form) =>
    desc.kind === "enum" ? enumValues(desc, form.direction) : describeMessage(desc, form),
  );

  const message = (desc: DescMessage, form: Form): Schema => wellKnownSchema(desc) ?? components.ref(desc, form);

  const value = (field: DescField, form: Form): Schema => {
    // What is said of a message's own fields does not hold for those inside of them.
    const inner = { ...form, omit: [], suffix: form.suffix.replace("Body", "Input") };
    const item = (): Schema => {
      if (field.message !== undefined) {
        return message(field.message, inner);
      }
      if (field.enum !== undefined) {
        return field.enum.typeName === "google.protobuf.NullValue"
          ? { type: "null" }
          : components.ref(field.enum, { ...inner, open: false, suffix: inner.suffix.replace("Open", "") });
      }
      const scalar = scalarSchema(field.scalar ?? ScalarType.STRING);
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

  const enumValues = (desc: DescEnum, direction: Form["direction"]): Schema => {
    const { strict, numberOf, nameOf } = enumNames(desc);
    // Where values have spellings, one without is for what nobody has set: no answer holds it.
    const spelled = strict ? new Set(numberOf.keys()) : new Set(nameOf.values());
    const names =
      direction === "request" ? [...numberOf.keys()] : [...nameOf.values()].filter((name) => spelled.has(name));
    const lines = desc.values.flatMap((each) => {
      const comment = comments(each);
      const name = nameOf.get(each.number);
      return comment === undefined || name === undefined || !names.includes(name)
        ? []
        : [`- \`${name}\`: ${comment.replaceAll(/\s+/g, " ")}`];
    });
    const said = {
      ...describe(comments(desc), lines.join("\n")),
      ...(desc.deprecated ? { deprecated: true } : {}),
    };
    if (strict || !desc.open) {
      return { type: "string", ...said, enum: names };
    }
    // A value without a name, such as one of a newer .proto, is a number.
    return {
      ...said,
      anyOf: [
        { type: "string", enum: names },
        { type: "integer", format: "int32" },
      ],
    };
  };

  const describeField = (field: DescField, form: Form): Schema => {
    const rule = fieldRule(field);
    let schema = value(field, form);
    let note = "";
    if (rule.lenient && field.parent.fields.some((other) => fieldRule(other).inline)) {
      schema = { anyOf: [schema, {}] };
      note = "A value of another type is kept as it is.";
    } else if (form.direction === "request" && !rule.notNull && !form.text) {
      schema = orNull(schema);
    }
    const text = describe(comments(field), note || (schema["description"] as string | undefined));
    return { ...schema, ...text, ...(field.deprecated ? { deprecated: true } : {}) };
  };

  const describeMessage = (desc: DescMessage, form: Form): Schema => {
    const described = new Map<string, Schema>();
    const required: string[] = [];
    let others: unknown = form.direction === "request" && !form.open ? false : undefined;
    for (const field of desc.fields) {
      const rule = fieldRule(field);
      if (rule.header !== "" || form.omit.includes(field.name)) {
        continue;
      }
      if (rule.inline) {
        const inline = value(field, form);
        others = inline["additionalProperties"] ?? true;
        continue;
      }
      described.set(field.jsonName, describeField(field, form));
      if (form.direction === "request" ? rule.required : rule.always && !canBeAbsent(field)) {
        required.push(field.jsonName);
      }
    }
    // One may be called __proto__.
    const properties = Object.fromEntries(described);
    const oneofs = desc.oneofs.map((oneof) => describeOneof(oneof, properties)).filter((each) => each !== undefined);
    return {
      type: "object",
      ...describe(comments(desc)),
      ...(desc.deprecated ? { deprecated: true } : {}),
      ...(Object.keys(properties).length === 0 ? {} : { properties }),
      ...(required.length === 0 ? {} : { required }),
      ...(others === undefined ? {} : { additionalProperties: others }),
      ...(oneofs.length === 1 ? oneofs[0] : oneofs.length === 0 ? {} : { allOf: oneofs }),
    };
  };

  return { message, value, enumValues, named: components.refNamed, finish: components.finish };
}

/** Its value may be unset also where it is written when empty. */
function canBeAbsent(field: DescField): boolean {
  const isCollection = field.fieldKind === "list" || field.fieldKind === "map";
  return !isCollection && (field.oneof !== undefined || field.presence !== FeatureSet_FieldPresence.IMPLICIT);
}

/** At most one of its members; alone, a member is no choice. */
function describeOneof(oneof: DescOneof, properties: Record<string, Schema>): Schema | undefined {
  const names = oneof.fields.map(({ jsonName }) => jsonName).filter((name) => Object.hasOwn(properties, name));
  if (names.length < 2) {
    return undefined;
  }
  return {
    oneOf: [
      ...names.map((name) => ({ title: name, required: [name] })),
      { title: `no ${oneof.name}`, not: { anyOf: names.map((name) => ({ required: [name] })) } },
    ],
  };
}

/** JSON keys are text; those of a map may have to be numbers. */
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
  const said = description === undefined ? {} : { description };
  if (typeof type === "string" && type !== "null" && schema["enum"] === undefined) {
    return { type: [type, "null"], ...rest, ...said };
  }
  if (type === "null") {
    return schema;
  }
  const choices = (rest["anyOf"] as Schema[] | undefined) ?? [{ ...(type === undefined ? {} : { type }), ...rest }];
  return { anyOf: [...choices, { type: "null" }], ...said };
}

export function describe(...paragraphs: (string | undefined)[]): { description?: string } {
  const text = paragraphs.filter((each) => each !== undefined && each !== "").join("\n\n");
  return text === "" ? {} : { description: text };
}
