import { create, type DescField, type DescMessage, type Message, type Registry } from "@bufbuild/protobuf";
import { hasCustomJsonRepresentation, StructSchema } from "@bufbuild/protobuf/wkt";
import { readDecoded } from "./content-encoding.ts";
import { RequestError } from "../http/request-error.ts";
import { createFormReader, type FormOptions } from "./form.ts";
import { findRawBody, setField, type RawBodyTarget } from "../schema/http-body.ts";
import { holdsInt64, messageHoldsInt64 } from "../json/int64.ts";
import { parseJson } from "../json/parse.ts";
import { createJsonReaders } from "../json/read.ts";
import { createZeroMessageFactory } from "../json/zero.ts";
import { isUtf8Charset, mediaTypeOf } from "../http/media-type.ts";
import { createMultipartReader } from "./multipart-form.ts";
import type { TranscodingRequest } from "../http/request.ts";
import { fieldRule } from "../schema/rules.ts";
import { findBinding } from "../schema/bound-fields.ts";

/** Reads a request's body into a message. Throws a RequestError where it can't be. */
export type BodyReader = (request: TranscodingRequest, defer?: DeferBody) => Message | Promise<Message>;

/** Makes the message in place of the reader, which parses the body when it is asked to. */
export type DeferBody = (bytes: Uint8Array, parse: (bytes: Uint8Array) => Message) => Message;

export type BodyOptions = FormOptions & {
  /** As in google.api.http: "*", the name of a field, or empty for no body. */
  readonly body: string;
  readonly consumes: readonly string[];
  readonly maxBytes: number;
  readonly maxDepth: number;
  readonly registry: Registry;
  /** Of forms. */
  readonly parameters: FormOptions["parameters"];
};

/** Makes a message of a document; the Content-Type is that of the request. */
export type BodyParser = (bytes: Uint8Array, contentType: string) => Message;

const JSON_TYPE = "application/json";
const FORM_TYPE = "application/x-www-form-urlencoded";
const MULTIPART_TYPE = "multipart/form-data";

/** Compiles a reader; throws at start-up for a rule that the message can't keep, or that is not supported. */
export function createBodyReader(desc: DescMessage, options: BodyOptions): BodyReader {
  const bound = boundFields(desc, options.body);
  if (options.body === "") {
    const zero = createZeroMessageFactory(desc);
    const refuse = (): RequestError => new RequestError(400, undefined, "this operation takes no body");
    return (request) => (request.hasBody() ? assertEmpty(request, refuse).then(zero) : zero());
  }
  const raw = findRawBody(desc, options.body);
  if (raw !== undefined) {
    return createRawReader(raw, options);
  }
  const parsers = new Map<string, BodyParser>();
  for (const type of options.consumes.length === 0 ? [JSON_TYPE] : options.consumes) {
    parsers.set(type, createParser(desc, type, options));
  }
  const understood = [...parsers.keys()].join(", ");
  const makeEmpty = createEmptyMaker(desc, bound, options);
  return (request, defer) => {
    const { "content-type": contentType } = request.headers;
    const parse = contentType === undefined ? undefined : findParser(parsers, contentType);
    const readNothing = (): Message => {
      if (makeEmpty !== undefined) {
        return makeEmpty();
      }
      throw contentType !== undefined && parse === undefined
        ? unsupportedMediaType(understood)
        : new RequestError(400, "invalid_json", "the body is empty; a JSON document was expected");
    };
    if (!request.hasBody()) {
      return readNothing();
    }
    if (contentType === undefined || parse === undefined) {
      return assertEmpty(request, () => unsupportedMediaType(understood)).then(readNothing);
    }
    // Of another realm's promise each further one would be of that realm too.
    return Promise.resolve(readDecoded(request, options.maxBytes)).then((bytes) => {
      if (bytes.length === 0 && makeEmpty !== undefined) {
        return makeEmpty();
      }
      return defer === undefined ? parse(bytes, contentType) : defer(bytes, (each) => parse(each, contentType));
    });
  };
}

/** A body of unknown length may be none. Throws the other RequestError where it is one, without reading more of it. */
async function assertEmpty(request: TranscodingRequest, refuse: () => RequestError): Promise<void> {
  let bytes: Uint8Array;
  try {
    bytes = await request.readBody(0);
  } catch (error) {
    throw error instanceof RequestError && error.status === 413 ? refuse() : error;
  }
  if (bytes.length > 0) {
    throw refuse();
  }
}

/** What an empty body stands for: `{}`, where no field is missing then. Undefined where it must be sent. */
function createEmptyMaker(
  desc: DescMessage,
  bound: readonly DescField[],
  { body, parameters: { boundFields } }: BodyOptions,
): (() => Message) | undefined {
  const isMissing = (field: DescField): boolean =>
    fieldRule(field).required && findBinding(boundFields, field) === undefined;
  if (body === "*") {
    return bound.some(isMissing) ? undefined : () => create(desc);
  }
  const [field] = bound;
  if (field?.fieldKind !== "message" || field.message.fields.some((below) => fieldRule(below).required)) {
    return undefined;
  }
  const { message: held } = field;
  if (held.typeName === StructSchema.typeName) {
    return () => withField(desc, field, {});
  }
  return hasCustomJsonRepresentation(held) ? undefined : () => withField(desc, field, create(held));
}

/** RFC 9110, section 15.5.16; Accept-Post is what W3C's LDP tells clients by. */
export function unsupportedMediaType(understood: string): RequestError {
  return new RequestError(415, "unsupported_media_type", `the Content-Type must be ${understood}`, {
    headers: { "accept-post": understood },
  });
}

/** A raw body is of any media type, or of those that the method names. */
function createRawReader(
  raw: RawBodyTarget,
  { consumes, maxBytes }: Pick<BodyOptions, "consumes" | "maxBytes">,
): BodyReader {
  const assertType = createRawTypeCheck(consumes);
  return async (request) => {
    const contentType = request.headers["content-type"];
    if (!request.hasBody() && contentType === undefined) {
      return raw.wrap(undefined);
    }
    assertType(contentType);
    const data = request.hasBody() ? await readDecoded(request, maxBytes) : new Uint8Array();
    return raw.wrap({ contentType: contentType ?? "", data });
  };
}

export function createRawTypeCheck(consumes: readonly string[]): (contentType: string | undefined) => void {
  if (consumes.length === 0) {
    return () => {};
  }
  const types = new Set(consumes);
  return (contentType) => {
    if (contentType === undefined || !types.has(mediaTypeOf(contentType))) {
      throw unsupportedMediaType(consumes.join(", "));
    }
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

function createParser(desc: DescMessage, type: string, options: BodyOptions): BodyParser {
  if (type === JSON_TYPE) {
    return createJsonParser(desc, options);
  }
  if (type === FORM_TYPE && options.body === "*") {
    return createFormReader(desc, options);
  }
  if (type === MULTIPART_TYPE && options.body === "*") {
    return createMultipartReader(desc, options);
  }
  throw new Error(`a body "${options.body}" of the media type ${type} is not supported`);
}

/** Compiles the parser of a JSON document that is the whole message, or one of its fields. */
export function createJsonParser(
  desc: DescMessage,
  options: Pick<BodyOptions, "body" | "ignoreUnknown" | "maxDepth" | "registry">,
): BodyParser {
  const readers = createJsonReaders(options);
  if (options.body === "*") {
    const read = readers.message(desc);
    const exact = messageHoldsInt64(desc);
    return (bytes) => read(parseJson(bytes, options.maxDepth, [], exact), []) as Message;
  }
  const [field] = boundFields(desc, options.body);
  if (field === undefined) {
    throw new Error(`${desc.typeName}: a rule without a body has no JSON to read`);
  }
  const read = readers.field(field);
  const exact = holdsInt64(field);
  const root = [field.jsonName];
  return (bytes) => {
    const value = read(parseJson(bytes, options.maxDepth, root, exact), root);
    return value === undefined ? create(desc) : withField(desc, field, value);
  };
}

function withField(desc: DescMessage, field: DescField, value: unknown): Message {
  const message = create(desc) as Message & Record<string, unknown>;
  setField(message, field, value);
  return message;
}

function findParser(parsers: ReadonlyMap<string, BodyParser>, contentType: string): BodyParser | undefined {
  const exact = parsers.get(contentType);
  if (exact !== undefined) {
    return exact;
  }
  const type = mediaTypeOf(contentType);
  if (!isUtf8Charset(contentType)) {
    return undefined;
  }
  return parsers.get(type.startsWith("application/") && type.endsWith("+json") ? JSON_TYPE : type);
}
