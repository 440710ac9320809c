import {
  create,
  fromBinary,
  toBinary,
  type DescMessage,
  type JsonObject,
  type Message,
  type Registry,
} from "@bufbuild/protobuf";
import { AnySchema, hasCustomJsonRepresentation, type Any } from "@bufbuild/protobuf/wkt";
import { ValueError, prependPath, type Read } from "./value-error.ts";
import { asMessage, asValue } from "./struct.ts";
import { isObject } from "./wide-integer.ts";

// A message in a google.protobuf.Any is `{"@type": url, …fields}`, and one that has a JSON form of its own, as a
// Timestamp has, `{"@type": url, "value": form}`. `{}` is an Any that holds nothing.

/** Messages that were just read, or that an implementation made: what nests deep in them is bounded elsewhere. */
const recursionLimit = 1_000_000;

/** Compiles the reader of any message that the registry has; `message` gives the reader of a type. */
export function createAnyReader(
  { registry, ignoreUnknown }: { readonly registry: Registry; readonly ignoreUnknown: boolean },
  message: (desc: DescMessage) => Read,
): Read {
  return (value) => {
    if (!isObject(value)) {
      throw new ValueError("must be an object");
    }
    const { "@type": typeUrl, ...fields } = value;
    if (typeUrl === undefined) {
      if (Object.keys(fields).length === 0) {
        return create(AnySchema);
      }
      throw new ValueError("is missing", undefined, ["@type"]);
    }
    const desc = findType(typeUrl, registry);
    const content = hasCustomJsonRepresentation(desc) ? onlyValue(fields, ignoreUnknown) : fields;
    let packed: unknown;
    try {
      packed = message(desc)(content);
    } catch (error) {
      throw content === fields ? error : prependPath("value", error);
    }
    return create(AnySchema, { typeUrl: typeUrl as string, value: encode(desc, packed) });
  };
}

function findType(typeUrl: unknown, registry: Registry): DescMessage {
  const name = typeof typeUrl === "string" ? nameOf(typeUrl) : undefined;
  if (name === undefined) {
    throw new ValueError("must be the URL of a type, such as type.googleapis.com/google.protobuf.Duration", undefined, [
      "@type",
    ]);
  }
  const desc = registry.getMessage(name);
  if (desc === undefined) {
    throw new ValueError(`must name a known type, not ${String(typeUrl).slice(0, 200).toWellFormed()}`, undefined, [
      "@type",
    ]);
  }
  return desc;
}

/** What follows the last slash, of which there must be one. */
function nameOf(typeUrl: string): string | undefined {
  return /\/([^/]+)$/.exec(typeUrl)?.[1];
}

function onlyValue(fields: Record<string, unknown>, ignoreUnknown: boolean): unknown {
  const unknown = Object.keys(fields).find((key) => key !== "value");
  if (unknown !== undefined && !ignoreUnknown) {
    throw new ValueError("unknown; the fields are @type, value", undefined, [unknown]);
  }
  if (!Object.hasOwn(fields, "value")) {
    throw new ValueError("is missing", undefined, ["value"]);
  }
  return fields["value"];
}

function encode(desc: DescMessage, packed: unknown): Uint8Array {
  const message = asMessage(desc, packed);
  try {
    return toBinary(desc, message);
  } catch (error) {
    if (error instanceof RangeError) {
      throw error;
    }
    // All else of a message that was read is as its fields want it.
    throw new ValueError(`a required field of ${desc.typeName}, or of a message in it, is missing`);
  }
}

/** Gives the writer of a type. */
type WriterOf = (desc: DescMessage, registry: Registry) => (value: unknown) => unknown;

/**
 * Compiles the writer of any message that the registry has. Throws for another: its bytes would be taken for JSON that
 * they are not, and so the proto3 JSON mapping has such a message fail.
 */
export function createAnyWriter(registry: Registry, writerOf: WriterOf): (value: unknown) => unknown {
  return (any) => {
    const { typeUrl, value } = any as Any;
    if (typeUrl === "") {
      return {};
    }
    const desc = registry.getMessage(nameOf(typeUrl) ?? "");
    if (desc === undefined) {
      throw new Error(`the registry has no type for the google.protobuf.Any of ${typeUrl}`);
    }
    return typed(typeUrl, desc, writerOf(desc, registry)(asValue(desc, fromBinary(desc, value, { recursionLimit }))));
  };
}

/** The JSON of a message in an Any, as JSON.parse gives it. */
export function writeTyped(
  typeUrl: string,
  desc: DescMessage,
  message: Message,
  write: (value: unknown) => unknown,
): JsonObject {
  // A writer's own may hold what only JSON.stringify understands.
  return JSON.parse(JSON.stringify(typed(typeUrl, desc, write(asValue(desc, message))))) as JsonObject;
}

function typed(typeUrl: string, desc: DescMessage, json: unknown): Record<string, unknown> {
  if (hasCustomJsonRepresentation(desc)) {
    return { "@type": typeUrl, value: json };
  }
  const fields = { "@type": typeUrl, ...(json as object) };
  // An open object may have had such a key of its own.
  fields["@type"] = typeUrl;
  return fields;
}
