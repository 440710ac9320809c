import { ScalarType, type DescField, type DescMessage, type Registry } from "@bufbuild/protobuf";
import { RequestError } from "../http/request-error.ts";
import { expectedOf, scalarFromText } from "../json/scalar.ts";
import { fieldRule } from "../schema/rules.ts";
import { findBinding, type BoundFields } from "../schema/bound-fields.ts";
import { createTextReader, type TextReader } from "../json/text.ts";

export type ParameterOptions = {
  /** Where the parameters stand. Some fields are never bound from a query. */
  readonly from: "query" | "form";
  /** A parameter that names no field: a fault, or nothing. */
  readonly unknown: "reject" | "ignore";
  /** A parameter for a field that has another source: a fault, or nothing. Under neither does it change the field. */
  readonly bound: "reject" | "ignore";
  readonly boundFields: BoundFields;
  /** A parameter's path through messages is at most so long. */
  readonly maxDepth: number;
  /** What a google.protobuf.Any may hold, in a map as JSON. */
  readonly registry: Registry;
};

/** One field, as parameters see it. */
type Parameter = {
  readonly field: DescField;
  readonly name: string;
  readonly kind: "value" | "list" | "map" | "message" | "none";
  /** Of a value, of a list's item, of a map's value. */
  readonly text: TextReader | undefined;
  /** Of a map: the key as it stands in memory, or undefined where it does not fit. */
  readonly key: (text: string) => string | undefined;
  readonly isHeader: boolean;
  readonly noQuery: boolean;
};

/** The parameters of one message. */
export type Level = {
  readonly desc: DescMessage;
  readonly byName: ReadonlyMap<string, Parameter>;
  /** Some name has a dot or a bracket in it, by json_name. */
  readonly hasOddNames: boolean;
};

const levels = new WeakMap<DescMessage, Level>();

export function levelOf(desc: DescMessage): Level {
  let level = levels.get(desc);
  if (level === undefined) {
    const byName = new Map<string, Parameter>();
    const parameters = desc.fields.map(compileParameter);
    for (const parameter of parameters) {
      byName.set(parameter.name, parameter);
    }
    // Where one field's name in the .proto is another's in JSON, JSON's counts.
    for (const parameter of parameters) {
      byName.set(parameter.field.jsonName, parameter);
    }
    level = { desc, byName, hasOddNames: desc.fields.some(({ jsonName }) => /[.[]/.test(jsonName)) };
    levels.set(desc, level);
  }
  return level;
}

function compileParameter(field: DescField): Parameter {
  const text = createTextReader(field);
  const rule = fieldRule(field);
  return {
    field,
    name: field.name,
    kind: kindOf(field, text),
    text,
    key: field.fieldKind === "map" ? keyReader(field) : () => undefined,
    isHeader: rule.header !== "",
    noQuery: rule.noQuery,
  };
}

/** Any could be anything, and an HttpBody is a body: no parameter stands for one, nor for a part of one. */
const unbound = new Set(["google.protobuf.Any", "google.api.HttpBody"]);

function kindOf(field: DescField, text: TextReader | undefined): Parameter["kind"] {
  if (field.message !== undefined && unbound.has(field.message.typeName)) {
    return "none";
  }
  switch (field.fieldKind) {
    case "list":
      return text === undefined ? "none" : "list";
    case "map":
      return "map";
    case "message":
      return text === undefined ? "message" : "value";
    default:
      return "value";
  }
}

function keyReader(field: DescField & { fieldKind: "map" }): Parameter["key"] {
  const { mapKey } = field;
  return (text) => {
    const key = scalarFromText(mapKey, text);
    return key === undefined || key === "__proto__" ? undefined : String(key);
  };
}

/** A way from a message down to one of its fields' values. */
export type Target = {
  /** Through messages; undefined where the field is the root's own. */
  readonly steps: readonly Step[] | undefined;
  readonly leaf: Parameter;
  /** Of a map's entry. */
  readonly key: string | undefined;
  /** As the .proto names it. */
  readonly path: string;
  /** The path has keys that the client chose. */
  readonly repeatsInput: boolean;
};

export type Step = { readonly parameter: Parameter; readonly key: string | undefined };

/** Finds the field that a name means; undefined where the parameter is to be ignored. */
export function resolveParameter(root: Level, name: string, options: ParameterOptions): Target | undefined {
  let level = root;
  let boundFields: BoundFields | undefined = options.boundFields;
  let steps: Step[] | undefined;
  let path = "";
  let repeatsInput = false;
  for (let at = 0; ;) {
    let end = at;
    while (end < name.length && name[end] !== "." && name[end] !== "[") {
      end++;
    }
    let parameter = level.byName.get(at === 0 && end === name.length ? name : name.slice(at, end));
    if (parameter === undefined && level.hasOddNames) {
      parameter = level.byName.get(name.slice(at));
      end = parameter === undefined ? end : name.length;
    }
    if (parameter === undefined || (parameter.noQuery && options.from === "query")) {
      return refuseUnknown(level, name, options);
    }
    path = path === "" ? parameter.name : `${path}.${parameter.name}`;
    boundFields = findBinding(boundFields, parameter.field);
    if (typeof boundFields === "string" || parameter.isHeader) {
      return refuseBound(path, typeof boundFields === "string" ? boundFields : "header", repeatsInput, options);
    }
    const here = { steps, leaf: parameter, key: undefined, path, repeatsInput };
    if (parameter.kind === "none") {
      throw parameterError(here, `can't be given in a ${options.from}`);
    }
    if (end === name.length) {
      if (parameter.kind === "message") {
        throw parameterError(here, "a message; name one of its fields");
      }
      return here;
    }
    let key: string | undefined;
    if (name[end] === "[") {
      if (parameter.kind !== "map") {
        throw parameterError(
          here,
          parameter.kind === "list" ? "must be repeated by its name alone" : "must be one plain value",
        );
      }
      // The value of an entry ends the name, and so its key may hold brackets; a key before fields of the value may not.
      const isLeaf = parameter.text !== undefined;
      const close = isLeaf ? name.length - 1 : name.indexOf("].", end);
      if (close === -1 || name[close] !== "]" || close <= end) {
        throw parameterError(
          here,
          isLeaf ? "must be named as one entry, name[key]" : "name a field of one entry, name[key].field",
        );
      }
      key = parameter.key(name.slice(end + 1, close));
      if (key === undefined) {
        const { field } = parameter;
        throw parameterError(here, field.fieldKind === "map" ? keyProblem(field) : "has no keys");
      }
      path += `[${key}]`;
      repeatsInput = true;
      if (isLeaf) {
        return { steps, leaf: parameter, key, path, repeatsInput };
      }
      end = close + 1;
    } else if (parameter.kind !== "message") {
      throw parameterError(
        here,
        parameter.kind === "map" ? "must be named as one entry, name[key]" : "must be one plain value",
      );
    }
    steps ??= [];
    steps.push({ parameter, key });
    if (steps.length >= options.maxDepth) {
      throw new RequestError(400, undefined, `a parameter's name leads deeper than ${options.maxDepth} levels`);
    }
    level = levelOf(parameter.field.message as DescMessage);
    at = end + 1;
  }
}

function keyProblem({ mapKey }: DescField & { fieldKind: "map" }): string {
  return mapKey === ScalarType.STRING ? "this key is not allowed" : `the key must be ${expectedOf[mapKey]}`;
}

/** More names than these help nobody. */
const MAX_NAMES = 20;
const MAX_ECHO = 100;

function refuseUnknown(level: Level, name: string, { unknown, from }: ParameterOptions): undefined {
  if (unknown === "ignore") {
    return undefined;
  }
  const shown = name.length > MAX_ECHO ? `${name.slice(0, MAX_ECHO)}…` : name;
  const names = [...new Set(level.byName.values())]
    .filter(({ isHeader, noQuery }) => !isHeader && !(noQuery && from === "query"))
    .map(({ field }) => field.name);
  const known = names.length === 0 ? "none is known" : `known are ${names.slice(0, MAX_NAMES).join(", ")}`;
  throw new RequestError(
    400,
    undefined,
    `${shown.toWellFormed()}: an unknown parameter; ${known}${names.length > MAX_NAMES ? ", …" : ""}`,
    { repeatsInput: true },
  );
}

function refuseBound(path: string, source: string, repeatsInput: boolean, options: ParameterOptions): undefined {
  // The name of a field that a header fills is nowhere told to clients: who ignores unknown names ignores it.
  if (options.bound === "ignore" || (source === "header" && options.unknown === "ignore")) {
    return undefined;
  }
  throw new RequestError(400, undefined, `${path}: given by the ${source}, and so it can't be a parameter`, {
    repeatsInput,
  });
}

export function parameterError(
  { leaf, path, repeatsInput }: Pick<Target, "leaf" | "path" | "repeatsInput">,
  what: string,
): RequestError {
  const { invalid } = fieldRule(leaf.field);
  return new RequestError(400, invalid === "" ? undefined : invalid, `${path}: ${what}`, { repeatsInput });
}
