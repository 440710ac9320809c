import { create, ScalarType, type DescField, type DescMessage, type Message } from "@bufbuild/protobuf";
import { Fault } from "./fault.ts";
import { createJsonReaders } from "./json/read.ts";
import { expectedOf, scalarFromText } from "./json/scalar.ts";
import { decodeParameter } from "./percent.ts";
import { fieldRule } from "./rules.ts";
import { takenOf, type TakenFields } from "./taken.ts";
import { createTextReader, jsonFromText, unfitText, type TextReader } from "./text.ts";

export type ParameterOptions = {
  /** Where the parameters stand. Some fields are never bound from a query. */
  readonly from: "query" | "form";
  /** A parameter that names no field: a fault, or nothing. */
  readonly unknown: "reject" | "ignore";
  /** A parameter for a field that has another source: a fault, or nothing. Under neither does it change the field. */
  readonly bound: "reject" | "ignore";
  readonly taken: TakenFields;
  /** A parameter's path through messages is at most so long. */
  readonly maxDepth: number;
};

/** Puts the parameters that stand in a text from `start` on into a message. Throws a Fault for the first that does not fit. */
export type ParameterReader = (message: Message, text: string, start: number) => void;

/**
 * Compiles the binder of `a=1&b.c=2`: each name is the path to a field, by the names of the .proto or those of JSON at
 * each level. A repeated field takes one parameter for each item, in their order; a map `m[key]=value` for each
 * entry, or all as JSON; Struct, Value and ListValue are JSON. No other field is given twice, nor two of a oneof.
 */
export function createParameterReader(desc: DescMessage, options: ParameterOptions): ParameterReader {
  const root = levelOf(desc);
  return (message, text, start) => {
    let seen: Set<string> | undefined;
    let first: string | undefined;
    for (let at = start; at < text.length;) {
      let end = text.indexOf("&", at);
      if (end === -1) {
        end = text.length;
      }
      if (end > at) {
        const equals = text.indexOf("=", at);
        const hasValue = equals !== -1 && equals < end;
        const name = decodeParameter(text.slice(at, hasValue ? equals : end), options.from);
        const value = hasValue ? decodeParameter(text.slice(equals + 1, end), options.from) : "";
        const target = resolve(root, name, options);
        if (target !== undefined) {
          const { leaf } = target;
          // Items and entries may come again; an entry's key is looked at where it is set.
          if (leaf.kind === "value") {
            const key = target.steps === undefined ? leaf.name : target.path;
            if (key === first || seen?.has(key) === true) {
              throw faultOf(target, "given more than once");
            }
            if (first === undefined) {
              first = key;
            } else {
              (seen ??= new Set()).add(key);
            }
          }
          put(message, target, value);
        }
      }
      at = end + 1;
    }
  };
}

type Fields = Message & Record<string, unknown>;

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
type Level = {
  readonly desc: DescMessage;
  readonly byName: ReadonlyMap<string, Parameter>;
  /** Some name has a dot or a bracket in it, by json_name. */
  readonly hasOddNames: boolean;
};

const levels = new WeakMap<DescMessage, Level>();

function levelOf(desc: DescMessage): Level {
  let level = levels.get(desc);
  if (level === undefined) {
    const byName = new Map<string, Parameter>();
    for (const field of desc.fields) {
      const parameter = compileParameter(field);
      byName.set(field.jsonName, parameter).set(field.name, parameter);
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
type Target = {
  /** Through messages; undefined where the field is the root's own. */
  readonly steps: readonly Step[] | undefined;
  readonly leaf: Parameter;
  /** Of a map's entry. */
  readonly key: string | undefined;
  /** As the .proto names it. */
  readonly path: string;
  /** The path has keys that the client chose. */
  readonly echoes: boolean;
};

type Step = { readonly parameter: Parameter; readonly key: string | undefined };

/** Finds the field that a name means; undefined where the parameter is to be ignored. */
function resolve(root: Level, name: string, options: ParameterOptions): Target | undefined {
  let level = root;
  let taken: TakenFields | undefined = options.taken;
  let steps: Step[] | undefined;
  let path = "";
  let echoes = false;
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
    taken = takenOf(taken, parameter.field);
    if (typeof taken === "string" || parameter.isHeader) {
      return refuseBound(path, typeof taken === "string" ? taken : "header", echoes, options);
    }
    const here = { steps, leaf: parameter, key: undefined, path, echoes };
    if (parameter.kind === "none") {
      throw faultOf(here, `can't be given in a ${options.from}`);
    }
    if (end === name.length) {
      if (parameter.kind === "message") {
        throw faultOf(here, "a message; name one of its fields");
      }
      return here;
    }
    let key: string | undefined;
    if (name[end] === "[") {
      if (parameter.kind !== "map") {
        throw faultOf(
          here,
          parameter.kind === "list" ? "must be repeated by its name alone" : "must be one plain value",
        );
      }
      // The value of an entry ends the name, and so its key may hold brackets; a key before fields of the value may not.
      const isLeaf = parameter.text !== undefined;
      const close = isLeaf ? name.length - 1 : name.indexOf("].", end);
      if (close === -1 || name[close] !== "]" || close <= end) {
        throw faultOf(
          here,
          isLeaf ? "must be named as one entry, name[key]" : "name a field of one entry, name[key].field",
        );
      }
      key = parameter.key(name.slice(end + 1, close));
      if (key === undefined) {
        const { field } = parameter;
        throw faultOf(here, field.fieldKind === "map" ? keyProblem(field) : "has no keys");
      }
      path += `[${key}]`;
      echoes = true;
      if (isLeaf) {
        return { steps, leaf: parameter, key, path, echoes };
      }
      end = close + 1;
    } else if (parameter.kind !== "message") {
      throw faultOf(
        here,
        parameter.kind === "map" ? "must be named as one entry, name[key]" : "must be one plain value",
      );
    }
    steps ??= [];
    steps.push({ parameter, key });
    if (steps.length >= options.maxDepth) {
      throw new Fault(400, undefined, `a parameter's name leads deeper than ${options.maxDepth} levels`);
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
  throw new Fault(
    400,
    undefined,
    `${shown.toWellFormed()}: an unknown parameter; ${known}${names.length > MAX_NAMES ? ", …" : ""}`,
    { echoes: true },
  );
}

function refuseBound(path: string, source: string, echoes: boolean, options: ParameterOptions): undefined {
  // The name of a field that a header fills is nowhere told to clients: who ignores unknown names ignores it.
  if (options.bound === "ignore" || (source === "header" && options.unknown === "ignore")) {
    return undefined;
  }
  throw new Fault(400, undefined, `${path}: given by the ${source}, and so it can't be a parameter`, { echoes });
}

function faultOf({ leaf, path, echoes }: Pick<Target, "leaf" | "path" | "echoes">, what: string): Fault {
  const { invalid } = fieldRule(leaf.field);
  return new Fault(400, invalid === "" ? undefined : invalid, `${path}: ${what}`, { echoes });
}

/** Sets the value of the field where the target leads. */
function put(message: Fields, target: Target, text: string): void {
  const { leaf, steps } = target;
  const { field, kind } = leaf;
  const reader = leaf.text;
  let value: unknown;
  if (kind === "map" && target.key === undefined) {
    value = readMapAsJson(target, text);
  } else if (reader !== undefined) {
    value = reader.read(text);
    if (value === undefined) {
      throw misfitOf(target, reader, text);
    }
  }
  const owner = steps === undefined ? message : descend(message, steps, target);
  switch (kind) {
    case "list":
      (owner[field.localName] as unknown[]).push(value);
      return;
    case "map": {
      const map = owner[field.localName] as Record<string, unknown>;
      const entries = target.key === undefined ? Object.entries(value as object) : [[target.key, value] as const];
      for (const [key, entry] of entries) {
        if (Object.hasOwn(map, key)) {
          throw faultOf(target, "has a key that is given more than once");
        }
        map[key] = entry;
      }
      return;
    }
    default:
      setField(owner, field, value, target);
  }
}

function setField(owner: Fields, field: DescField, value: unknown, target: Target): void {
  if (field.oneof === undefined) {
    owner[field.localName] = value;
    return;
  }
  const { case: rival } = owner[field.oneof.localName] as { case: string | undefined };
  if (rival !== undefined && rival !== field.localName) {
    throw faultOf(target, `${rival} is given already, and only one of them can be`);
  }
  owner[field.oneof.localName] = { case: field.localName, value };
}

/** Goes down to the message that has the field, and makes those on the way that are not there. */
function descend(message: Fields, steps: readonly Step[], target: Target): Fields {
  let owner = message;
  for (const { parameter, key } of steps) {
    const { field } = parameter;
    const desc = field.message as DescMessage;
    let next: Fields | undefined;
    if (key !== undefined) {
      const map = owner[field.localName] as Record<string, unknown>;
      next = Object.hasOwn(map, key) ? (map[key] as Fields) : (create(desc) as Fields);
      map[key] = next;
    } else if (field.oneof === undefined) {
      next = owner[field.localName] as Fields | undefined;
      if (next === undefined) {
        next = create(desc) as Fields;
        owner[field.localName] = next;
      }
    } else {
      const member = owner[field.oneof.localName] as { case: string | undefined; value?: unknown };
      next = member.case === field.localName ? (member.value as Fields) : (create(desc) as Fields);
      if (member.case !== field.localName) {
        setField(owner, field, next, target);
      }
    }
    owner = next;
  }
  return owner;
}

function readMapAsJson(target: Target, text: string): unknown {
  const { field } = target.leaf;
  const json = text.startsWith("{") ? jsonFromText(text) : undefined;
  if (json === undefined) {
    throw faultOf(target, "must be given by its entries, name[key]=value, or as a JSON object");
  }
  return createJsonReaders({ ignoreUnknown: false }).field(field)(json, [target.path]);
}

function misfitOf(target: Target, reader: TextReader, text: string): Fault {
  const fault = unfitText(reader, target.path, { echoes: target.echoes });
  return target.leaf.field.message?.typeName === "google.protobuf.Timestamp" && text.includes(" ")
    ? new Fault(fault.status, fault.reason, `${fault.message} (a "+" in a query means a space: write it as %2B)`, fault)
    : fault;
}
