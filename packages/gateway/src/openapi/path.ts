import type { Route } from "../routing/route.ts";
import type { FieldPath } from "../schema/field-path.ts";
import { formatTemplate, type Template, type TemplateVariable } from "../routing/template.ts";
import type { Comments } from "./comments.ts";
import { requestUse } from "./components.ts";
import type { Parameter, Schema } from "./document.ts";
import { describe, type Schemas } from "./schema.ts";

export type DescribedPath = {
  /** The OpenAPI path, with a parameter for each wildcard. */
  readonly path: string;
  readonly parameters: readonly Parameter[];
};

/**
 * Converts a template to an OpenAPI path, whose parameters are one segment each. A variable of several segments, such as
 * `{name=shelves/*\/books/*}`, becomes a parameter for each wildcard, with its literals in the path. That "**" matches
 * several segments is only in the description.
 */
export function describePath({ template, pathFields }: Route, schemas: Schemas, comments: Comments): DescribedPath {
  const parameters: Parameter[] = [];
  const owners = template.variables.map((variable, index) => ({ variable, fields: pathFields[index] ?? [] }));
  const parts = template.segments.map((segment, index) => {
    if (segment.kind === "literal") {
      return segment.text;
    }
    const owner = owners.find(({ variable }) => index >= variable.start && index < variable.end);
    const name = nameOf(template, index, owner?.variable);
    parameters.push({
      name,
      in: "path",
      required: true,
      ...describe(
        owner?.fields.at(-1) && comments(owner.fields.at(-1) as FieldPath[number]),
        owner?.variable.multi
          ? `Part of \`${owner.variable.fieldPath}\` in \`${formatTemplate(template)}\`.`
          : undefined,
        segment.kind === "**" ? "Zero or more segments, with unescaped slashes." : undefined,
      ),
      schema: owner === undefined || owner.variable.multi ? { type: "string" } : schemaOf(owner.fields, schemas),
    });
    return `{${name}}`;
  });
  return { path: `/${parts.join("/")}${template.verb === "" ? "" : `:${template.verb}`}`, parameters };
}

/** The name of the variable if it has a single wildcard; otherwise with the number of the wildcard. */
function nameOf({ segments }: Template, index: number, variable: TemplateVariable | undefined): string {
  const own = variable ?? { start: 0, end: segments.length, fieldPath: "segment" };
  const before = segments.slice(own.start, index).filter(({ kind }) => kind !== "literal").length;
  const all = segments.slice(own.start, own.end).filter(({ kind }) => kind !== "literal").length;
  return all === 1 && variable !== undefined ? own.fieldPath : `${own.fieldPath}_${before + 1}`;
}

function schemaOf(fields: FieldPath, schemas: Schemas): Schema {
  const field = fields.at(-1);
  if (field === undefined) {
    return { type: "string" };
  }
  const { description: _, ...schema } =
    field.fieldKind === "enum" ? schemas.enumValues(field.enum, "request") : schemas.value(field, requestUse(false));
  return schema;
}

/** The path without parameter names, by which OpenAPI compares paths. */
export function hierarchyOf(path: string): string {
  return path.replaceAll(/\{[^}]*\}/g, "{}");
}
