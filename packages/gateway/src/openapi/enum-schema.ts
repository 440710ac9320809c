import type { DescEnum } from "@bufbuild/protobuf";
import { type EnumNames, enumNames, protoEnumNames } from "../schema/rules.ts";
import type { Annotations } from "./annotations.ts";
import { describe, type Comments } from "./comments.ts";
import type { SchemaUse } from "./components.ts";
import type { Schema } from "./document.ts";
import type { SchemaForm } from "./scalar-schema.ts";

/** The schema of an enum whose values are names. */
export function enumSchema(
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

/** The schema of an enum whose values are numbers, with the documentation of that of names. */
export function enumNumbers(
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
