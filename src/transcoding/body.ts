import { setImmediate } from "node:timers/promises";
import { create, type DescField, type DescMessage, type Message } from "@bufbuild/protobuf";
import { Fault } from "./fault.ts";
import { createFormReader } from "./form.ts";
import { parseJson } from "./json/parse.ts";
import { createJsonReaders } from "./json/read.ts";
import { readDecoded } from "./content-encoding.ts";
import { isUtf8Charset, mediaTypeOf } from "./media.ts";
import type { TranscodingRequest } from "./request.ts";
import { fieldRule } from "./rules.ts";

/** Reads a request's body into a message. Throws a Fault where it can't be. */
export type BodyReader = (request: TranscodingRequest) => Promise<Message>;

export type BodyOptions = {
  /** As in google.api.http: "*", the name of a field, or empty for no body. */
  readonly body: string;
  readonly consumes: readonly string[];
  readonly ignoreUnknown: boolean;
  readonly maxBytes: number;
  readonly maxDepth: number;
};

type Parse = (bytes: Uint8Array) => Message | Promise<Message>;

/** Parsing and reading take some ms for each MB: other requests get their turn in between. */
const LARGE_BYTES = 256 * 1024;

const JSON_TYPE = "application/json";
const FORM_TYPE = "application/x-www-form-urlencoded";

/** Compiles a reader; throws at start-up for a rule that the message can't keep, or that is not supported. */
export function createBodyReader(desc: DescMessage, options: BodyOptions): BodyReader {
  const bound = boundFields(desc, options.body);
  for (const field of desc.fields) {
    const rule = fieldRule(field);
    if (!bound.includes(field) && rule.header === "" && !rule.notNull) {
      throw new Error(`${desc.typeName}.${field.name} would be bound from the query, which is not supported yet`);
    }
  }
  if (options.body === "") {
    return async (request) => {
      if (request.hasBody()) {
        throw new Fault(400, undefined, "this operation takes no body");
      }
      return create(desc);
    };
  }
  const parsers = new Map<string, Parse>();
  for (const type of options.consumes.length === 0 ? [JSON_TYPE] : options.consumes) {
    parsers.set(type, createParser(desc, type, options));
  }
  const emptyAllowed = options.body === "*" && !bound.some((field) => fieldRule(field).required);
  const understood = [...parsers.keys()].join(", ");
  return async (request) => {
    const contentType = request.headers["content-type"];
    const parse = contentType === undefined ? undefined : findParser(parsers, contentType);
    if (parse === undefined && (contentType !== undefined || request.hasBody())) {
      throw new Fault(415, "unsupported_media_type", `the Content-Type must be ${understood}`, {
        headers: { "accept-post": understood },
      });
    }
    const bytes = request.hasBody() ? await readDecoded(request, options.maxBytes) : new Uint8Array();
    if (bytes.length === 0 && emptyAllowed) {
      return create(desc);
    }
    if (parse === undefined) {
      throw new Fault(400, "invalid_json", "the body is empty; a JSON document was expected");
    }
    return parse(bytes);
  };
}

function boundFields(desc: DescMessage, body: string): DescField[] {
  if (body === "*") {
    return desc.fields;
  }
  if (body === "") {
    return [];
  }
  const field = desc.fields.find((each) => each.name === body);
  if (field === undefined) {
    throw new Error(`${desc.typeName} has no field "${body}", which the rule names as the body`);
  }
  return [field];
}

function createParser(desc: DescMessage, type: string, options: BodyOptions): Parse {
  if (type === FORM_TYPE && options.body === "*") {
    return createFormReader(desc, options);
  }
  if (type !== JSON_TYPE) {
    throw new Error(`a body "${options.body}" of the media type ${type} is not supported yet`);
  }
  const readers = createJsonReaders(options);
  if (options.body === "*") {
    const read = readers.message(desc);
    return async (bytes) => read(await parseLarge(bytes, options.maxDepth), []) as Message;
  }
  const [field] = boundFields(desc, options.body);
  if (field === undefined || field.oneof !== undefined) {
    throw new Error(`${desc.typeName}.${options.body}: a member of a oneof as body is not supported yet`);
  }
  const read = readers.field(field);
  const root = [field.jsonName];
  return async (bytes) => {
    const message = create(desc) as Message & Record<string, unknown>;
    const value = await parseLarge(bytes, options.maxDepth, root);
    // null clears a message, as it does inside of one.
    if (value !== null || field.fieldKind !== "message" || field.message.typeName === "google.protobuf.Value") {
      message[field.localName] = read(value, [...root]);
    }
    return message;
  };
}

async function parseLarge(bytes: Uint8Array, maxDepth: number, root: string[] = []): Promise<unknown> {
  const value = parseJson(bytes, maxDepth, root);
  if (bytes.length >= LARGE_BYTES) {
    await setImmediate();
  }
  return value;
}

function findParser(parsers: ReadonlyMap<string, Parse>, contentType: string): Parse | undefined {
  const type = mediaTypeOf(contentType);
  if (!isUtf8Charset(contentType)) {
    return undefined;
  }
  return parsers.get(type.startsWith("application/") && type.endsWith("+json") ? JSON_TYPE : type);
}
