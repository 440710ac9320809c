import { type DescField, type DescMessage } from "@bufbuild/protobuf";
import { fieldRule } from "../schema/rules.ts";
import { createTextReader } from "../json/text-reader.ts";
import { requestUse } from "./components.ts";
import type { Schema } from "./document.ts";
import type { Schemas } from "./schema.ts";

/** A field that a parameter of a query or a form can set. */
export type ParameterField = {
  /** The path of JSON names, such as `page.size`. */
  readonly name: string;
  readonly field: DescField;
  readonly schema: Schema;
  /** How the value is written: as text, as a parameter for each item or for each key (`labels[a]=b`), or as JSON. */
  readonly style: "text" | "repeated" | "keys" | "json";
};

export type ParameterFieldsOptions = {
  readonly from: "query" | "form";
  /** Whether the field is bound to another part of the request, by its path of proto names. */
  readonly isBound: (path: string) => boolean;
};

/** Collects the fields that parameters can set. A recursive message is descended into once; deeper fields are omitted. */
export function parameterFields(
  desc: DescMessage,
  { from, isBound }: ParameterFieldsOptions,
  schemas: Schemas,
): ParameterField[] {
  const fields: ParameterField[] = [];
  const visit = (desc: DescMessage, parents: readonly DescField[], ancestors: readonly DescMessage[]): void => {
    for (const field of desc.fields) {
      const path = [...parents, field];
      const { header, noQuery } = fieldRule(field);
      if (header !== "" || (noQuery && from === "query") || isBound(path.map(({ name }) => name).join("."))) {
        continue;
      }
      const described = describeParameter(field, schemas);
      if (described !== undefined) {
        fields.push({ name: path.map(({ jsonName }) => jsonName).join("."), field, ...described });
      } else if (
        field.fieldKind === "message" &&
        !unsupported.has(field.message.typeName) &&
        !ancestors.includes(field.message)
      ) {
        visit(field.message, path, [...ancestors, field.message]);
      }
    }
  };
  visit(desc, [], [desc]);
  return fields;
}

/** The messages that parameters can't set, nor fields of them. */
const unsupported = new Set(["google.protobuf.Any", "google.api.HttpBody"]);

/** Undefined if parameters can only set subfields, or nothing. */
function describeParameter(field: DescField, schemas: Schemas): Pick<ParameterField, "schema" | "style"> | undefined {
  const use = requestUse(false);
  const text = createTextReader(field);
  if (field.fieldKind === "map") {
    // The fields of a message value would be several parameters for each entry; the map is described as JSON.
    const schema = schemas.value(field, use);
    return { style: text === undefined || text.isJson ? "json" : "keys", schema };
  }
  if (text === undefined) {
    return undefined;
  }
  const item =
    field.enum !== undefined
      ? schemas.enumValues(field.enum, "request")
      : field.message !== undefined
        ? (schemas.wellKnown(field.message) ?? {})
        : schemas.value(field, use);
  if (field.fieldKind === "list") {
    const schema = field.enum === undefined && field.message === undefined ? item : { type: "array", items: item };
    return { style: "repeated", schema };
  }
  return { style: text.isJson ? "json" : "text", schema: item };
}
