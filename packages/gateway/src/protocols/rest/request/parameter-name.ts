import { type DescField, type DescMessage, type Registry } from "@bufbuild/protobuf";
import { RequestError } from "../../../http/request-error.ts";
import { expectedOf, scalarFromText } from "../../../json/scalar.ts";
import { fieldRule } from "../../../schema/rules.ts";
import { findBinding, type BoundFields } from "../../../schema/bound-fields.ts";
import type { TextReader } from "../../../json/plain-text-reading.ts";
import { createTextReader } from "../../../json/text-reader.ts";

export type ParameterBindingOptions = {
  /** The origin of the parameters. Fields with the `no_query` option are not bound to a query. */
  readonly from: "query" | "form";
  /** The treatment of a parameter that matches no field. */
  readonly unknown: "reject" | "ignore";
  /** The treatment of a parameter for a field bound to path, body or a header. It never sets the field. */
  readonly bound: "reject" | "ignore";
  /** The names to ignore, even if a field has the name. */
  readonly ignored: ReadonlySet<string>;
  readonly boundFields: BoundFields;
  /** The maximum number of nested messages in a parameter's name. */
  readonly maxDepth: number;
  /** Names of enum values are accepted in any case. */
  readonly ignoreEnumCase: boolean;
  /** The types that a google.protobuf.Any in a map given as JSON can contain. */
  readonly registry: Registry;
};

type Parameter = {
  readonly field: DescField;
  readonly name: string;
  readonly kind: "value" | "list" | "map" | "message" | "none";
  /** Reads the value, the item of a list, or the value of a map; undefined if that is a message with fields. */
  readonly text: TextReader | undefined;
  /** Reads a map key; undefined if it is invalid. */
  readonly key: (text: string) => string | undefined;
  readonly isHeader: boolean;
  readonly noQuery: boolean;
};

export type MessageParameters = {
  /** By proto name and JSON name. */
  readonly byName: ReadonlyMap<string, Parameter>;
  /** True if a `json_name` contains a dot or an opening bracket. */
  readonly hasSpecialNames: boolean;
};

const cache = new WeakMap<DescMessage, MessageParameters>();

export function messageParameters(desc: DescMessage): MessageParameters {
  let compiled = cache.get(desc);
  if (compiled === undefined) {
    const byName = new Map<string, Parameter>();
    const parameters = desc.fields.map(compileParameter);
    for (const parameter of parameters) {
      byName.set(parameter.name, parameter);
    }
    // A JSON name takes precedence over an equal proto name of another field.
    for (const parameter of parameters) {
      byName.set(parameter.field.jsonName, parameter);
    }
    compiled = { byName, hasSpecialNames: desc.fields.some(({ jsonName }) => /[.[]/.test(jsonName)) };
    cache.set(desc, compiled);
  }
  return compiled;
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

/** The messages that parameters can't set, nor fields of them: Any has no fixed fields, and HttpBody is a body. */
const unsupported = new Set(["google.protobuf.Any", "google.api.HttpBody"]);

function kindOf(field: DescField, text: TextReader | undefined): Parameter["kind"] {
  if (field.message !== undefined && unsupported.has(field.message.typeName)) {
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
    return key === undefined ? undefined : String(key);
  };
}

export type Target = {
  /** The message fields and map entries that contain it; undefined for a field of the root message. */
  readonly steps: readonly Step[] | undefined;
  readonly leaf: Parameter;
  /** The key of a map entry. */
  readonly key: string | undefined;
  /** The path in proto names, for error messages. */
  readonly path: string;
  /** True if the path contains map keys that the client sent. */
  readonly repeatsInput: boolean;
};

export type Step = { readonly parameter: Parameter; readonly key: string | undefined };

/**
 * Resolves a parameter's name, such as `a.b` or `labels[key]`. Returns undefined if the parameter is to be ignored;
 * throws a RequestError if it is to be rejected.
 */
export function resolveParameter(
  root: MessageParameters,
  name: string,
  options: ParameterBindingOptions,
): Target | undefined {
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
    if (parameter === undefined && level.hasSpecialNames) {
      parameter = level.byName.get(name.slice(at));
      end = parameter === undefined ? end : name.length;
    }
    if (parameter === undefined || (parameter.noQuery && options.from === "query")) {
      return rejectUnknown(level, boundFields, name, options);
    }
    path = path === "" ? parameter.name : `${path}.${parameter.name}`;
    boundFields = findBinding(boundFields, parameter.field);
    if (typeof boundFields === "string" || parameter.isHeader) {
      return rejectBound(path, typeof boundFields === "string" ? boundFields : "header", repeatsInput, options);
    }
    const target = { steps, leaf: parameter, key: undefined, path, repeatsInput };
    if (parameter.kind === "none") {
      throw parameterError(target, `can't be set by a ${options.from}`);
    }
    if (end === name.length) {
      if (parameter.kind === "message") {
        throw parameterError(target, "is a message; name one of its fields");
      }
      return target;
    }
    let key: string | undefined;
    if (name[end] === "[") {
      if (parameter.kind !== "map") {
        throw parameterError(
          target,
          parameter.kind === "list"
            ? "is a list: repeat the name without brackets for each item"
            : "is not a map, so it has no keys",
        );
      }
      // A key at the end of the name may contain brackets; a key that is followed by a field of the value may not.
      const isLeaf = parameter.text !== undefined;
      const close = isLeaf ? name.length - 1 : name.indexOf("].", end);
      if (close === -1 || name[close] !== "]" || close <= end) {
        throw parameterError(
          target,
          isLeaf ? "must be named as one entry, name[key]" : "name a field of one entry, name[key].field",
        );
      }
      key = parameter.key(name.slice(end + 1, close));
      if (key === undefined) {
        const { field } = parameter;
        throw parameterError(target, field.fieldKind === "map" ? keyProblem(field) : "has no keys");
      }
      path += `[${key}]`;
      repeatsInput = true;
      if (isLeaf) {
        return { steps, leaf: parameter, key, path, repeatsInput };
      }
      end = close + 1;
    } else if (parameter.kind !== "message") {
      throw parameterError(target, parameter.kind === "map" ? "is a map: name one entry, name[key]" : "has no fields");
    }
    steps ??= [];
    steps.push({ parameter, key });
    if (steps.length >= options.maxDepth) {
      throw new RequestError(400, undefined, `a parameter's name is nested deeper than ${options.maxDepth} levels`);
    }
    level = messageParameters(parameter.field.message as DescMessage);
    at = end + 1;
  }
}

function keyProblem({ mapKey }: DescField & { fieldKind: "map" }): string {
  return `the key must be ${expectedOf[mapKey]}`;
}

/** The maximum number of known parameters in an error message. */
const MAX_NAMES = 20;
/** The maximum length of an unknown parameter's name in an error message. */
const MAX_NAME_LENGTH = 100;

/** `boundFields` belong to the level. */
function rejectUnknown(
  level: MessageParameters,
  boundFields: BoundFields | undefined,
  name: string,
  { unknown, from }: ParameterBindingOptions,
): undefined {
  if (unknown === "ignore") {
    return undefined;
  }
  const shown = name.length > MAX_NAME_LENGTH ? `${name.slice(0, MAX_NAME_LENGTH)}…` : name;
  const names = [...new Set(level.byName.values())]
    .filter(({ kind, isHeader, noQuery }) => !isHeader && (from === "form" || (kind !== "none" && !noQuery)))
    .filter(({ field }) => typeof findBinding(boundFields, field) !== "string")
    .map((parameter) => parameter.name);
  const known = names.length === 0 ? "there are none" : `the parameters are ${names.slice(0, MAX_NAMES).join(", ")}`;
  throw new RequestError(
    400,
    undefined,
    `${shown.toWellFormed()}: unknown parameter; ${known}${names.length > MAX_NAMES ? ", …" : ""}`,
    { repeatsInput: true },
  );
}

function rejectBound(path: string, source: string, repeatsInput: boolean, options: ParameterBindingOptions): undefined {
  // Clients know a header field by the header's name only, so its field name is an unknown parameter to them.
  if (options.bound === "ignore" || (source === "header" && options.unknown === "ignore")) {
    return undefined;
  }
  throw new RequestError(400, undefined, `${path}: set by the ${source}, so it can't be a parameter`, { repeatsInput });
}

export function parameterError(
  { leaf, path, repeatsInput }: Pick<Target, "leaf" | "path" | "repeatsInput">,
  what: string,
): RequestError {
  const { invalid } = fieldRule(leaf.field);
  return new RequestError(400, invalid === "" ? undefined : invalid, `${path}: ${what}`, { repeatsInput });
}
