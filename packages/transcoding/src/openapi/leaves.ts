import { type DescField, type DescMessage } from "@bufbuild/protobuf";
import { fieldRule } from "../schema/rules.ts";
import { createTextReader } from "../json/text.ts";
import { requestForm } from "./components.ts";
import type { Schema } from "./document.ts";
import type { Schemas } from "./schema.ts";
import { wellKnownSchema } from "./scalar-schema.ts";

/** A field that a parameter of a query or a form fills. */
export type Leaf = {
  /** Its JSON name; of a field inside of others, theirs before it: `page.size`. */
  readonly name: string;
  readonly field: DescField;
  readonly schema: Schema;
  /** How the value is written: one text, a parameter for each item, one for each key (`labels[a]=b`), or JSON. */
  readonly style: "text" | "repeated" | "keys" | "json";
};

export type LeavesOptions = {
  readonly from: "query" | "form";
  /** Whether something else fills the field, by its path in the .proto's names. */
  readonly isBound: (path: string) => boolean;
};

/** The fields that parameters can fill. A message that holds itself is followed once: what is deeper stays unsaid. */
export function leavesOf(desc: DescMessage, { from, isBound }: LeavesOptions, schemas: Schemas): Leaf[] {
  const leaves: Leaf[] = [];
  const visit = (desc: DescMessage, above: readonly DescField[], ancestors: readonly DescMessage[]): void => {
    for (const field of desc.fields) {
      const path = [...above, field];
      const { header, noQuery } = fieldRule(field);
      if (header !== "" || (noQuery && from === "query") || isBound(path.map(({ name }) => name).join("."))) {
        continue;
      }
      const shape = shapeOf(field, schemas);
      if (shape !== undefined) {
        leaves.push({ name: path.map(({ jsonName }) => jsonName).join("."), field, ...shape });
      } else if (
        field.fieldKind === "message" &&
        !unbound.has(field.message.typeName) &&
        !ancestors.includes(field.message)
      ) {
        visit(field.message, path, [...ancestors, field.message]);
      }
    }
  };
  visit(desc, [], [desc]);
  return leaves;
}

/** No parameter stands for these, nor for a part of them. */
const unbound = new Set(["google.protobuf.Any", "google.api.HttpBody"]);

/** undefined: parameters fill what is inside of it, if anything. */
function shapeOf(field: DescField, schemas: Schemas): Pick<Leaf, "schema" | "style"> | undefined {
  const form = requestForm(false);
  const text = createTextReader(field);
  if (field.fieldKind === "map") {
    // Of messages, an entry is several parameters; but all entries can be one, as JSON.
    const schema = schemas.value(field, form);
    return { style: text === undefined || text.isJson ? "json" : "keys", schema };
  }
  if (text === undefined) {
    return undefined;
  }
  const item =
    field.enum !== undefined
      ? schemas.enumValues(field.enum, "request")
      : field.message !== undefined
        ? (wellKnownSchema(field.message) ?? {})
        : schemas.value(field, form);
  if (field.fieldKind === "list") {
    const schema = field.enum === undefined && field.message === undefined ? item : { type: "array", items: item };
    return { style: "repeated", schema };
  }
  return { style: text.isJson ? "json" : "text", schema: item };
}
