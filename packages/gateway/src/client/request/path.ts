import { isFieldSet, type Message, type Registry } from "@bufbuild/protobuf";
import { FeatureSet_FieldPresence } from "@bufbuild/protobuf/wkt";
import { fieldWriter } from "../../json/write.ts";
import { formatText } from "../../json/format-text.ts";
import type { Route } from "../../routing/route.ts";
import { expandTemplate } from "../../routing/template.ts";
import type { FieldPath } from "../../schema/field-path.ts";
import { getField } from "../../schema/field-value.ts";

export type Path = {
  /** True if the fields of all variables are set, so that none has its default value. */
  readonly isSet: boolean;
} & ({ readonly path: string } | { readonly path: undefined; readonly problem: string });

/** A segment that URL parsers remove (WHATWG URL, section 4.1), together with the one before it if it has two dots. */
const dotSegment = /\/(?:\.|%2e){1,2}(?:\/|$)/i;

/** Compiles the expansion of a route's template with the fields of a message. */
export function createPathWriter(
  { template, pathFields }: Pick<Route, "template" | "pathFields">,
  registry: Registry,
): (message: Message) => Path {
  const variables = template.variables.map(({ fieldPath }, index) => ({
    fieldPath,
    read: createVariableReader(pathFields[index] ?? [], registry),
  }));
  return (message) => {
    const values: Record<string, string> = {};
    let isSet = true;
    for (const { fieldPath, read } of variables) {
      const variable = read(message);
      isSet &&= variable.isSet;
      if (variable.text !== undefined) {
        values[fieldPath] = variable.text;
      }
    }
    try {
      const path = expandTemplate(template, values);
      return dotSegment.test(path)
        ? { path: undefined, problem: `the path can't have the segment "." or ".."`, isSet }
        : { path, isSet };
    } catch (error) {
      return { path: undefined, problem: (error as Error).message, isSet };
    }
  };
}

type Variable = { readonly text: string | undefined; readonly isSet: boolean };

const unset: Variable = { text: undefined, isSet: false };

function createVariableReader(path: FieldPath, registry: Registry): (message: Message) => Variable {
  const owners = path.slice(0, -1);
  const leaf = path.at(-1);
  if (leaf === undefined) {
    return () => unset;
  }
  const write = fieldWriter(leaf, registry);
  return (message) => {
    let owner: Message | undefined = message;
    for (const field of owners) {
      owner = getField(owner, field) as Message | undefined;
      if (owner === undefined) {
        return unset;
      }
    }
    const isSet = isFieldSet(owner, leaf);
    if (!isSet && leaf.presence !== FeatureSet_FieldPresence.IMPLICIT) {
      return unset;
    }
    return { text: formatText(leaf, write(getField(owner, leaf))), isSet };
  };
}
