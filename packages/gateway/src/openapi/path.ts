import type { Route } from "../routing/route.ts";
import type { Template, TemplateVariable } from "../routing/template.ts";
import { describe } from "./comments.ts";
import { fieldOf, type OperationContext } from "./context.ts";
import type { ParameterObject, Schema } from "./document.ts";
import { valuesOnly } from "./parameters.ts";

export type DescribedPath = {
  /** The OpenAPI path, with a parameter for each wildcard. */
  readonly path: string;
  readonly parameters: readonly ParameterObject[];
};

/**
 * Converts a template to an OpenAPI path, whose parameters are one segment each. A variable of several segments, such as
 * `{name=shelves/*\/books/*}`, becomes a parameter for each wildcard, with its literals in the path. That "**" matches
 * several segments is only in the description. `bodies` are the names of the messages that operations of the path have as body.
 */
export function describePath(
  { method, template, pathFields }: Route,
  bodies: ReadonlySet<string>,
  context: OperationContext,
): DescribedPath {
  const { request } = context.usesOf(method);
  const parameters: ParameterObject[] = [];
  const owners = template.variables.map((variable, index) => ({ variable, fields: pathFields[index] ?? [] }));
  const names = nameWildcards(template, bodies);
  const parts = template.segments.map((segment, index) =>
    segment.kind === "literal" ? segment.text : `{${names[index]}}`,
  );
  for (const [index, segment] of template.segments.entries()) {
    if (segment.kind === "literal") {
      continue;
    }
    const owner = owners.find(({ variable }) => index >= variable.start && index < variable.end);
    const field = owner?.fields.at(-1);
    const { description, ...schema }: Schema =
      field === undefined || owner?.variable.multi === true
        ? { type: "string" }
        : context.schemas.parameter(field, request);
    parameters.push({
      name: names[index] ?? "",
      in: "path",
      required: true,
      ...describe(
        field && context.comments(field),
        field?.enum === undefined ? (description as string | undefined) : valuesOnly(description),
        owner?.variable.multi
          ? `Part of \`${owner.variable.fieldPath}\`: \`${parts.slice(owner.variable.start, owner.variable.end).join("/")}\`.`
          : undefined,
        segment.kind === "**" ? "Zero or more segments, with unescaped slashes." : undefined,
      ),
      schema,
    });
  }
  return { path: `/${parts.join("/")}${template.verb === "" ? "" : `:${template.verb}`}`, parameters };
}

/**
 * The names of the parameters, by the index of their segment: the variable's name if it is one segment; otherwise the
 * collection's before the wildcard, as in the patterns of AIP-122 (`projects/{project}`), or `project_id` where
 * generators would call the body `project`. Without such a name, or if it is taken, the variable's name with the number
 * of its wildcard.
 */
function nameWildcards({ segments, variables }: Template, bodies: ReadonlySet<string>): Record<number, string> {
  const names: Record<number, string> = {};
  const taken = new Set(variables.filter(({ multi }) => !multi).map(({ fieldPath }) => fieldPath));
  for (const [index, segment] of segments.entries()) {
    if (segment.kind === "literal") {
      continue;
    }
    const variable = variables.find(({ start, end }) => index >= start && index < end);
    if (variable?.multi === false) {
      names[index] = variable.fieldPath;
      continue;
    }
    const resource = variable === undefined ? undefined : resourceName(segments, index, variable);
    const preferred = resource !== undefined && bodies.has(resource) ? `${resource}_id` : resource;
    const name =
      preferred === undefined || taken.has(preferred) ? numberedName(segments, index, variable, taken) : preferred;
    taken.add(name);
    names[index] = name;
  }
  return names;
}

/** "project" for the wildcard of `projects/*`; undefined without a collection, and for a `**` behind one. */
function resourceName(segments: Template["segments"], index: number, { start }: TemplateVariable): string | undefined {
  const before = index > start ? segments[index - 1] : undefined;
  if (segments[index]?.kind !== "*" || before?.kind !== "literal" || !/^[A-Za-z][\w-]*$/.test(before.text)) {
    return undefined;
  }
  return snakeCase(before.text).replace(/[a-z0-9]+$/, singular);
}

/** The names of the messages that operations have as body, in snake case, by the path without names. */
export function bodiesByPath(routes: readonly Route[]): ReadonlyMap<string, ReadonlySet<string>> {
  const names = new Map<string, Set<string>>();
  for (const { template, method, variants } of routes) {
    const messages = variants.map(({ body }) => (body === "*" ? method.input : fieldOf(method.input, body)?.message));
    const known = names.get(pathKey(template)) ?? new Set();
    names.set(pathKey(template), known);
    for (const message of messages.filter((each) => each !== undefined)) {
      known.add(snakeCase(message.name));
    }
  }
  return names;
}

export function pathKey({ segments, verb }: Template): string {
  return `${segments.map((segment) => (segment.kind === "literal" ? segment.text : "{}")).join("/")}:${verb}`;
}

function snakeCase(name: string): string {
  return name
    .replaceAll("-", "_")
    .replaceAll(/(?<=[a-z0-9])(?=[A-Z])/g, "_")
    .toLowerCase();
}

const irregular: Readonly<Record<string, string>> = {
  children: "child",
  cookies: "cookie",
  indices: "index",
  leaves: "leaf",
  movies: "movie",
  people: "person",
  series: "series",
  species: "species",
};

function singular(word: string): string {
  return (
    irregular[word] ??
    word
      .replace(/ies$/, "y")
      .replace(/elves$/, "elf")
      .replace(/(?<=ss|x|ch|sh|[rt]us)es$/, "")
      .replace(/(?<![su])s$/, "")
  );
}

function numberedName(
  segments: Template["segments"],
  index: number,
  variable: TemplateVariable | undefined,
  taken: ReadonlySet<string>,
): string {
  const own = variable ?? { start: 0, end: segments.length, fieldPath: "segment" };
  const count = (end: number): number => segments.slice(own.start, end).filter(({ kind }) => kind !== "literal").length;
  let number = count(index) + 1;
  let name = count(own.end) === 1 && variable !== undefined ? own.fieldPath : `${own.fieldPath}_${number}`;
  while (taken.has(name)) {
    number++;
    name = `${own.fieldPath}_${number}`;
  }
  return name;
}

export function hierarchyOf(path: string): string {
  return path.replaceAll(/\{[^}]*\}/g, "{}");
}
