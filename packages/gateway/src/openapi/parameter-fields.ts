import type { DescField, DescMessage, DescMethod } from "@bufbuild/protobuf";
import { fieldRule } from "../schema/rules.ts";
import { createTextReader } from "../json/text-reader.ts";
import type { OperationContext } from "./context.ts";
import type { Schema } from "./document.ts";

/** A field that a parameter of a query or a form can set. */
export type ParameterField = {
  /** The path of JSON names, such as `page.size`. */
  readonly name: string;
  readonly field: DescField;
  readonly schema: Schema;
  /** The form of the value: text, a parameter for each item or for each key (`labels[a]=b`), or JSON. */
  readonly style: "text" | "repeated" | "keys" | "json";
};

export type ParameterFieldsOptions = {
  readonly from: "query" | "form";
  /** True if the field is bound to another part of the request, by its path of proto names. */
  readonly isBound: (path: string) => boolean;
};

/** Collects the fields that parameters can set. A recursive message is descended into once; deeper fields are omitted. */
export function parameterFields(
  method: DescMethod,
  { from, isBound }: ParameterFieldsOptions,
  { schemas, usesOf }: OperationContext,
): ParameterField[] {
  const { request } = usesOf(method);
  const fields: ParameterField[] = [];
  const visit = (desc: DescMessage, parents: readonly DescField[], ancestors: readonly DescMessage[]): void => {
    for (const field of desc.fields) {
      const path = [...parents, field];
      const { header, noQuery } = fieldRule(field);
      if (
        header !== "" ||
        (noQuery && from === "query") ||
        isBound(path.map(({ name }) => name).join(".")) ||
        !schemas.canBeParameter(field)
      ) {
        continue;
      }
      const style = styleOf(field);
      if (style !== undefined) {
        const name = path.map(({ jsonName }) => jsonName).join(".");
        fields.push({ name, field, style, schema: schemas.parameter(field, request) });
      } else if (
        field.fieldKind === "message" &&
        !unsupported.has(field.message.typeName) &&
        !ancestors.includes(field.message)
      ) {
        visit(field.message, path, [...ancestors, field.message]);
      }
    }
  };
  visit(method.input, [], [method.input]);
  return fields;
}

/** The messages that parameters can't set, nor fields of them. */
const unsupported = new Set(["google.protobuf.Any", "google.api.HttpBody"]);

/** Undefined if parameters can only set subfields, or nothing. */
function styleOf(field: DescField): ParameterField["style"] | undefined {
  const text = createTextReader(field);
  if (field.fieldKind === "map") {
    // The fields of a message value would be several parameters for each entry; the map is described as JSON.
    return text === undefined || text.isJson ? "json" : "keys";
  }
  if (text === undefined) {
    return undefined;
  }
  return field.fieldKind === "list" ? "repeated" : text.isJson ? "json" : "text";
}
