import { create, type DescField, type DescMessage, type Message } from "@bufbuild/protobuf";
import {
  messageParameters,
  parameterError,
  type ParameterBindingOptions,
  resolveParameter,
  type Step,
  type Target,
} from "./parameter-name.ts";
import { decodeParameter } from "../../../routing/percent.ts";
import { RequestError } from "../../../http/request-error.ts";
import { getField, otherMemberOf, setField } from "../../../schema/field-value.ts";
import { setOwn } from "../../../json/object.ts";
import { createJsonReaders } from "../../../json/read.ts";
import type { TextReader } from "../../../json/plain-text-reading.ts";
import { invalidText, jsonFromText } from "../../../json/text-reader.ts";

/** Reads the parameters in `text`, from index `start` on, into a message. Throws a RequestError for the first invalid one. */
export type ParameterReader = (message: Message, text: string, start: number) => void;

/**
 * Compiles a reader of parameters such as `a=1&b.c=2`. Each name is a path of proto or JSON field names. A repeated
 * field takes one parameter for each item, in order; a map takes `m[key]=value` for each entry, or one JSON object;
 * Struct, Value and ListValue take JSON. Any other field, and any member of a oneof, can be set only once.
 */
export function createParameterReader(desc: DescMessage, options: ParameterBindingOptions): ParameterReader {
  const root = messageParameters(desc);
  const { ignored } = options;
  const hasIgnored = ignored.size > 0;
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
        const target = hasIgnored && ignored.has(name) ? undefined : resolveParameter(root, name, options);
        if (target !== undefined) {
          const { leaf } = target;
          // Lists and maps can repeat; setParameter rejects repeated map keys.
          if (leaf.kind === "value") {
            const key = target.steps === undefined ? leaf.name : target.path;
            if (key === first || seen?.has(key) === true) {
              throw parameterError(target, "set more than once");
            }
            if (first === undefined) {
              first = key;
            } else {
              (seen ??= new Set()).add(key);
            }
          }
          setParameter(message, target, value, options);
        }
      }
      at = end + 1;
    }
  };
}

type Fields = Message & Record<string, unknown>;

type ValueOptions = Pick<ParameterBindingOptions, "ignoreEnumCase" | "registry">;

/** Parses `text` and sets the target's field. */
function setParameter(root: Message, target: Target, text: string, options: ValueOptions): void {
  const { leaf, steps } = target;
  const { field, kind } = leaf;
  const reader = leaf.text;
  let value: unknown;
  if (kind === "map" && target.key === undefined) {
    value = readMapAsJson(target, text, options);
  } else if (reader !== undefined) {
    value = reader.read(text, options.ignoreEnumCase);
    if (value === undefined) {
      throw valueError(target, reader, text);
    }
  }
  const message = root as Fields;
  const owner = steps === undefined ? message : resolveOwner(message, steps, target);
  switch (kind) {
    case "list":
      (owner[field.localName] as unknown[]).push(value);
      return;
    case "map": {
      const map = owner[field.localName] as Record<string, unknown>;
      const entries = target.key === undefined ? Object.entries(value as object) : [[target.key, value] as const];
      for (const [key, entry] of entries) {
        if (Object.hasOwn(map, key)) {
          throw parameterError(target, "has a repeated key");
        }
        setOwn(map, key, entry);
      }
      return;
    }
    default:
      setMember(owner, field, value, target);
  }
}

function setMember(owner: Fields, field: DescField, value: unknown, target: Target): void {
  const other = otherMemberOf(owner, field);
  if (other !== undefined) {
    throw parameterError(target, `${other} of the same oneof is already set`);
  }
  setField(owner, field, value);
}

/** Returns the message that has the target's field; creates the messages on the path that are not set. */
function resolveOwner(message: Fields, steps: readonly Step[], target: Target): Fields {
  let owner = message;
  for (const { parameter, key } of steps) {
    const { field } = parameter;
    const desc = field.message as DescMessage;
    let next: Fields | undefined;
    if (key !== undefined) {
      const map = owner[field.localName] as Record<string, unknown>;
      next = Object.hasOwn(map, key) ? (map[key] as Fields) : create(desc);
      setOwn(map, key, next);
    } else {
      next = getField(owner, field) as Fields | undefined;
      if (next === undefined) {
        next = create(desc);
        setMember(owner, field, next, target);
      }
    }
    owner = next;
  }
  return owner;
}

function readMapAsJson(target: Target, text: string, options: ValueOptions): unknown {
  const { field } = target.leaf;
  const json = text.startsWith("{") ? jsonFromText(text, true) : undefined;
  if (json === undefined) {
    throw parameterError(target, "must be sent as entries, name[key]=value, or as a JSON object");
  }
  return createJsonReaders({ ...options, ignoreUnknown: false }).field(field)(json, [target.path]);
}

function valueError(target: Target, reader: TextReader, text: string): RequestError {
  const error = invalidText(reader, target.path, { repeatsInput: target.repeatsInput });
  return target.leaf.field.message?.typeName === "google.protobuf.Timestamp" && text.includes(" ")
    ? new RequestError(
        error.status,
        error.reason,
        `${error.message} (a "+" in a query means a space: write it as %2B)`,
        error,
      )
    : error;
}
