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
import { isObject } from "./object.ts";

// The JSON of a message in a google.protobuf.Any is `{"@type": url, …fields}`. A message with a JSON form of its own, such
// as a Timestamp, is `{"@type": url, "value": form}`. An empty Any is `{}`.

/** The depth of a request is limited when it is parsed; messages of the implementation are not limited. */
const recursionLimit = 1_000_000;

/** Creates the reader of an Any with any message of the registry. `message` returns the reader of a message type. */
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
    const content = hasCustomJsonRepresentation(desc) ? valueOf(fields, ignoreUnknown) : fields;
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

/** The name after the last slash; undefined if there is none. */
function nameOf(typeUrl: string): string | undefined {
  return /\/([^/]+)$/.exec(typeUrl)?.[1];
}

function valueOf(fields: Record<string, unknown>, ignoreUnknown: boolean): unknown {
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
    // The readers have checked everything else.
    throw new ValueError(`a required field of ${desc.typeName}, or of a message in it, is missing`);
  }
}

/** Returns the writer of a message type. */
type WriterOf = (desc: DescMessage, registry: Registry) => (value: unknown) => unknown;

/**
 * Creates the writer of an Any with any message of the registry. It throws for other messages, as the proto3 JSON mapping
 * requires: their bytes cannot be represented.
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

/** Returns the JSON of a message in an Any, as JSON.parse would. */
export function writeTyped(
  typeUrl: string,
  desc: DescMessage,
  message: Message,
  write: (value: unknown) => unknown,
): JsonObject {
  // A writer may return values that only JSON.stringify understands.
  return JSON.parse(JSON.stringify(typed(typeUrl, desc, write(asValue(desc, message))))) as JsonObject;
}

function typed(typeUrl: string, desc: DescMessage, json: unknown): Record<string, unknown> {
  if (hasCustomJsonRepresentation(desc)) {
    return { "@type": typeUrl, value: json };
  }
  const fields = { "@type": typeUrl, ...(json as object) };
  // An inline field may have a key of this name.
  fields["@type"] = typeUrl;
  return fields;
}
