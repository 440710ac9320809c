import { isFieldSet, type DescField, type DescMessage, type Message, type Registry } from "@bufbuild/protobuf";
import { FieldMaskSchema, type FieldMask } from "@bufbuild/protobuf/wkt";
import { fieldWriter } from "../../json/write.ts";
import { formatText } from "../../json/format-text.ts";
import type { BoundFields } from "../../schema/bound-fields.ts";
import { hasParameterForm } from "../../schema/field-path.ts";
import { getField } from "../../schema/field-value.ts";
import { fieldRule } from "../../schema/rules.ts";
import type { CompleteTransportOptions } from "../options.ts";
import { invalidArgument } from "./invalid-argument.ts";

/** A name and a value, which are not percent-encoded. */
export type RequestParameter = readonly [name: string, value: string];

export type ParameterWriterOptions = {
  readonly from: "query" | "form";
  /** The fields that are in other parts of the request. */
  readonly boundFields: BoundFields;
  readonly maps: boolean;
  readonly fieldMaskNames: CompleteTransportOptions["query"]["fieldMaskNames"];
  readonly registry: Registry;
};

type Writer = (message: Message & Record<string, unknown>, prefix: string, parameters: RequestParameter[]) => void;

/**
 * Compiles the parameters of a message's fields: all that are set and not bound to another part of the request. The writer throws
 * a ConnectError for a field that can't be a parameter.
 */
export function createParameterWriter(
  desc: DescMessage,
  options: ParameterWriterOptions,
): (message: Message) => RequestParameter[] {
  const compiled = new Map<DescMessage, Writer>();
  /** A message without bound fields is compiled once and when it is first written, because it may contain itself. */
  const messageWriter = (each: DescMessage, boundFields: BoundFields | undefined): Writer => {
    if (boundFields !== undefined) {
      return compileMessage(each, boundFields);
    }
    const known = compiled.get(each);
    if (known !== undefined) {
      return known;
    }
    let writer: Writer | undefined;
    const lazy: Writer = (...values) => (writer ??= compileMessage(each, undefined))(...values);
    compiled.set(each, lazy);
    return lazy;
  };
  const compileMessage = (each: DescMessage, boundFields: BoundFields | undefined): Writer => {
    if (typeof boundFields === "string") {
      return () => {};
    }
    const writers = each.fields.flatMap((field) => {
      const binding = boundFields?.get(field);
      return typeof binding === "string" || fieldRule(field).header !== ""
        ? []
        : [{ field, write: compileField(field, binding) }];
    });
    return (message, prefix, parameters) => {
      for (const { field, write } of writers) {
        if (isFieldSet(message, field)) {
          write(message, prefix, parameters);
        }
      }
    };
  };
  const compileField = (field: DescField, binding: BoundFields | undefined): Writer => {
    const problem = problemOf(field, options);
    if (problem !== undefined) {
      return (_message, prefix) => {
        throw invalidArgument(`${prefix}${field.name}: ${problem}`);
      };
    }
    if (field.fieldKind === "message" && !hasParameterForm(field)) {
      const write = messageWriter(field.message, binding);
      return (message, prefix, parameters) =>
        write(getField(message, field) as typeof message, `${prefix}${field.jsonName}.`, parameters);
    }
    return createValueWriter(field, options);
  };
  const write = messageWriter(desc, options.boundFields);
  return (message) => {
    const parameters: RequestParameter[] = [];
    write(message, "", parameters);
    return parameters;
  };
}

function problemOf(field: DescField, { from, maps }: ParameterWriterOptions): string | undefined {
  const inPart = from === "form" ? "in a form" : "in a query, and the rule binds it to no other part of the request";
  const typeName = field.message?.typeName;
  if (typeName === "google.api.HttpBody" || typeName === "google.protobuf.Any") {
    return `a ${typeName} can't be sent ${inPart}`;
  }
  if (from === "query" && fieldRule(field).noQuery) {
    return "the option no_query forbids sending it in a query";
  }
  if (field.fieldKind === "map" && !maps && from === "query") {
    return `a map can't be sent ${inPart}; some servers accept it, with the option query.maps`;
  }
  if ((field.fieldKind === "list" || field.fieldKind === "map") && !hasParameterForm(field)) {
    return `a ${field.fieldKind} of messages can't be sent ${inPart}`;
  }
  return undefined;
}

function createValueWriter(field: DescField, { from, fieldMaskNames, registry }: ParameterWriterOptions): Writer {
  const { jsonName } = field;
  if (
    field.message?.typeName === FieldMaskSchema.typeName &&
    fieldMaskNames === "proto" &&
    field.fieldKind === "message"
  ) {
    return (message, prefix, parameters) => {
      parameters.push([`${prefix}${jsonName}`, (getField(message, field) as FieldMask).paths.join(",")]);
    };
  }
  const write = fieldWriter(field, registry);
  return (message, prefix, parameters) => {
    const json = write(getField(message, field));
    const name = `${prefix}${jsonName}`;
    if (field.fieldKind === "list") {
      for (const item of json as unknown[]) {
        parameters.push([name, formatText(field, item)]);
      }
    } else if (field.fieldKind === "map" && from === "form") {
      // The name of a part in multipart/form-data can't have all characters that a key can.
      parameters.push([name, JSON.stringify(json)]);
    } else if (field.fieldKind === "map") {
      for (const [key, item] of Object.entries(json as object)) {
        parameters.push([`${name}[${key}]`, formatText(field, item)]);
      }
    } else {
      parameters.push([name, formatText(field, json)]);
    }
  };
}

/** Formats parameters as a query or a form. Throws a ConnectError for text that is not valid Unicode. */
export function formatParameters(parameters: readonly RequestParameter[]): string {
  return parameters
    .map(([name, value]) => {
      try {
        return `${encodeURIComponent(name)}=${encodeURIComponent(value)}`;
      } catch {
        throw invalidArgument(`${name.toWellFormed()}: the text has a lone surrogate`);
      }
    })
    .join("&");
}
