import { create, type DescField, type Message } from "@bufbuild/protobuf";
import type { Route } from "./route.ts";
import { RequestError } from "../http/request-error.ts";
import type { FieldPath } from "../schema/field-path.ts";
import { getField } from "../schema/http-body.ts";
import { decodePathVariable } from "./percent.ts";
import { createTextReader, invalidText } from "../json/text.ts";

/** Reads what a path's variables captured, raw; throws a RequestError where it does not fit. */
export type PathVariablesReader = (pathVariables: readonly string[]) => readonly unknown[];

/** Sets the fields of the variables to what was read. Throws a RequestError where another member of a oneof is set. */
export type PathVariablesSetter = (message: Message, values: readonly unknown[]) => void;

type Fields = Message & Record<string, unknown>;

/** Compiles the variables of a binding; throws at start-up for one whose field no text can fill. */
export function createPathVariablesReader({
  method,
  template,
  pathFields,
}: Pick<Route, "method" | "template" | "pathFields">): {
  read: PathVariablesReader;
  set: PathVariablesSetter;
} {
  const variables = pathFields.map((path, index) => {
    const field = path.at(-1);
    const variable = template.variables[index];
    const reader =
      field === undefined || field.fieldKind === "list" || field.fieldKind === "map"
        ? undefined
        : createTextReader(field);
    if (field === undefined || variable === undefined || reader === undefined || reader.isJson) {
      throw new Error(
        `${method.input.typeName} has no single value at "${variable?.fieldPath}" that a path could fill`,
      );
    }
    return { name: variable.fieldPath, multi: variable.multi, reader, field, owners: path.slice(0, -1), path };
  });
  return {
    read: (pathVariables) =>
      variables.map(({ name, multi, reader }, index) => {
        const text = decodePathVariable(pathVariables[index] ?? "", multi);
        if (text === undefined) {
          throw new RequestError(
            400,
            reader.reason,
            `${name}: the path is badly encoded: percent-escapes of UTF-8 were expected`,
          );
        }
        const value = reader.read(text);
        if (value === undefined) {
          throw invalidText(reader, name);
        }
        return value;
      }),
    set(message, values) {
      for (let i = 0; i < variables.length; i++) {
        const { owners, field, path } = variables[i] as (typeof variables)[number];
        let owner = message as Fields;
        for (const each of owners) {
          owner = (getField(owner, each) ??
            setField(owner, each, create(each.message as NonNullable<typeof each.message>), path)) as Fields;
        }
        setField(owner, field, values[i], path);
      }
    },
  };
}

function setField(owner: Fields, field: DescField, value: unknown, path: FieldPath): unknown {
  if (field.oneof === undefined) {
    owner[field.localName] = value;
  } else {
    // The path wins over the same field in a body; two members of a oneof contradict each other.
    const { case: rival } = owner[field.oneof.localName] as { case: string | undefined };
    if (rival !== undefined && rival !== field.localName) {
      const name = path.map((each) => each.name).join(".");
      throw new RequestError(400, undefined, `${rival}: the path gives ${name}, and only one of them can be given`);
    }
    owner[field.oneof.localName] = { case: field.localName, value };
  }
  return value;
}
