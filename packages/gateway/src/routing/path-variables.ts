import { create, type DescField, type Message } from "@bufbuild/protobuf";
import type { Route } from "./route.ts";
import { RequestError } from "../http/request-error.ts";
import type { FieldPath } from "../schema/field-path.ts";
import { getField, otherMemberOf, setField } from "../schema/field-value.ts";
import { decodePathVariable } from "./percent.ts";
import { createTextReader, invalidText } from "../json/text-reader.ts";

/** Decodes and parses the values of path variables; throws a RequestError for an invalid one. */
export type PathVariablesReader = (pathVariables: readonly string[]) => readonly unknown[];

/** Sets the variables' fields to the parsed values. Throws a RequestError if another member of a oneof is already set. */
export type PathVariablesSetter = (message: Message, values: readonly unknown[]) => void;

type Fields = Message & Record<string, unknown>;

/** Compiles the path variables of a route; throws an Error if a variable's field can't be read from text. */
export function createPathVariablesReader(
  { method, template, pathFields }: Pick<Route, "method" | "template" | "pathFields">,
  ignoreEnumCase: boolean,
): { read: PathVariablesReader; set: PathVariablesSetter } {
  const variables = pathFields.map((path, index) => {
    const field = path.at(-1);
    const variable = template.variables[index];
    const reader =
      field === undefined || field.fieldKind === "list" || field.fieldKind === "map"
        ? undefined
        : createTextReader(field);
    if (field === undefined || variable === undefined || reader === undefined || reader.isJson) {
      throw new Error(
        `${method.input.typeName} has no field "${variable?.fieldPath}" that a path variable can set: it must be a singular scalar, an enum, or a well-known type in text form`,
      );
    }
    return { name: variable.fieldPath, multi: variable.multi, reader, field, owners: path.slice(0, -1), path };
  });
  return {
    read: (pathVariables) =>
      variables.map(({ name, multi, reader }, index) => {
        const text = decodePathVariable(pathVariables[index] ?? "", multi);
        if (text === undefined) {
          throw new RequestError(400, reader.reason, `${name}: the path is not valid percent-encoded UTF-8`);
        }
        const value = reader.read(text, ignoreEnumCase);
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
            setMember(owner, each, create(each.message as NonNullable<typeof each.message>), path)) as Fields;
        }
        setMember(owner, field, values[i], path);
      }
    },
  };
}

/** The path overrides the same field of the body, but not another member of its oneof. */
function setMember(owner: Fields, field: DescField, value: unknown, path: FieldPath): unknown {
  const other = otherMemberOf(owner, field);
  if (other !== undefined) {
    const name = path.map((each) => each.name).join(".");
    throw new RequestError(400, undefined, `${other}: the path sets ${name} of the same oneof`);
  }
  setField(owner, field, value);
  return value;
}
