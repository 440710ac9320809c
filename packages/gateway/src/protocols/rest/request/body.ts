import { create, type DescField, type DescMessage, type Message, type Registry } from "@bufbuild/protobuf";
import { hasCustomJsonRepresentation, StructSchema } from "@bufbuild/protobuf/wkt";
import { readDecoded } from "./content-encoding.ts";
import { withReservation } from "../../../call/decompress-in-steps.ts";
import { RequestError } from "../../../http/request-error.ts";
import { createFormReader, type FormOptions } from "./form.ts";
import { setField } from "../../../schema/field-value.ts";
import { findRawBody, type RawBodyTarget } from "../../../schema/http-body.ts";
import { holdsInt64, messageHoldsInt64 } from "../../../json/int64.ts";
import { parseJson, type PrototypeKeys } from "../../../json/parse.ts";
import { createJsonReaders } from "../../../json/read.ts";
import { createZeroMessageFactory } from "../../../json/zero.ts";
import { FORM_TYPE, JSON_TYPE, MULTIPART_TYPE, isUtf8Charset, mediaTypeOf } from "../../../http/media-type.ts";
import type { MaskSetter } from "./field-mask.ts";
import { createMultipartReader } from "./multipart-form.ts";
import type { GatewayRequest } from "../../../http/request.ts";
import { fieldRule } from "../../../schema/rules.ts";
import { findBinding } from "../../../schema/bound-fields.ts";

/** Reads the body of a request into a message; throws, or rejects with, a RequestError if it is invalid. */
export type BodyReader = (request: GatewayRequest, defer?: DeferBody) => Message | Promise<Message>;

/** Creates a message that calls `parse` with the body's bytes later, on demand. */
export type DeferBody = (bytes: Uint8Array, parse: (bytes: Uint8Array) => Message) => Message;

export type BodyOptions = FormOptions & {
  /** As in google.api.http: "*", the name of a field, or empty for no body. */
  readonly body: string;
  /** Names of enum values are accepted in any case. */
  readonly ignoreEnumCase: boolean;
  readonly consumes: readonly string[];
  readonly maxBytes: number;
  readonly maxDepth: number;
  readonly prototypeKeys: PrototypeKeys;
  readonly registry: Registry;
  /** Sets the FieldMask of a PATCH; undefined if the client has to send it. */
  readonly setMask: MaskSetter | undefined;
};

export type BodyParser = (bytes: Uint8Array, contentType: string) => Message;

/** Compiles a body reader; throws an Error if the rule does not fit the message, or is not supported. */
export function createBodyReader(desc: DescMessage, options: BodyOptions): BodyReader {
  const bodyFields = resolveBodyFields(desc, options.body);
  if (options.body === "") {
    const createZeroMessage = createZeroMessageFactory(desc);
    const createError = (): RequestError => new RequestError(400, undefined, "this operation takes no body");
    return (request) =>
      request.hasBody() ? assertEmpty(request, createError).then(createZeroMessage) : createZeroMessage();
  }
  const raw = findRawBody(desc, options.body);
  if (raw !== undefined) {
    return createRawReader(raw, options);
  }
  const parsers = new Map<string, BodyParser>();
  for (const type of options.consumes.length === 0 ? [JSON_TYPE] : options.consumes) {
    parsers.set(type, createParser(desc, type, options));
  }
  const supported = [...parsers.keys()].join(", ");
  const createFromEmpty = createEmptyBodyFactory(desc, bodyFields, options);
  return (request, defer) => {
    const { "content-type": contentType } = request.headers;
    const parse = contentType === undefined ? undefined : findParser(parsers, contentType);
    const readEmpty = (): Message => {
      if (createFromEmpty !== undefined) {
        return createFromEmpty();
      }
      throw contentType !== undefined && parse === undefined
        ? unsupportedMediaType(supported)
        : new RequestError(400, "invalid_json", "the body is empty; a JSON document was expected");
    };
    if (!request.hasBody()) {
      return readEmpty();
    }
    if (contentType === undefined || parse === undefined) {
      return assertEmpty(request, () => unsupportedMediaType(supported)).then(readEmpty);
    }
    const parseBody = (bytes: Uint8Array): Message => {
      if (bytes.length === 0 && createFromEmpty !== undefined) {
        return createFromEmpty();
      }
      return defer === undefined ? parse(bytes, contentType) : defer(bytes, (each) => parse(each, contentType));
    };
    // Promise.resolve: a server may return a promise of another realm, for which `instanceof Promise` in the binder is false.
    return Promise.resolve(readDecoded(request, options.maxBytes)).then((bytes) =>
      withReservation(bytes, request, parseBody),
    );
  };
}

/** Rejects with the RequestError of `createError` at the first byte of the body. A body of unknown length may be empty. */
async function assertEmpty(request: GatewayRequest, createError: () => RequestError): Promise<void> {
  let bytes: Uint8Array;
  try {
    bytes = await request.readBody(0);
  } catch (error) {
    throw error instanceof RequestError && error.status === 413 ? createError() : error;
  }
  if (bytes.length > 0) {
    throw createError();
  }
}

/** Compiles the message of an empty body, which is equivalent to `{}`. Undefined if a required field would be missing. */
function createEmptyBodyFactory(
  desc: DescMessage,
  bodyFields: readonly DescField[],
  { body, setMask, parameters: { boundFields } }: BodyOptions,
): (() => Message) | undefined {
  const isMissing = (field: DescField): boolean =>
    fieldRule(field).required && findBinding(boundFields, field) === undefined;
  if (body === "*") {
    return bodyFields.some(isMissing) ? undefined : () => create(desc);
  }
  const [field] = bodyFields;
  if (field?.fieldKind !== "message" || [field, ...field.message.fields].some((each) => fieldRule(each).required)) {
    return undefined;
  }
  const { message: fieldDesc } = field;
  if (fieldDesc.typeName === StructSchema.typeName) {
    return () => withField(desc, field, {});
  }
  return hasCustomJsonRepresentation(fieldDesc)
    ? undefined
    : () => {
        const message = withField(desc, field, create(fieldDesc));
        setMask?.(message, {});
        return message;
      };
}

/** 415 (RFC 9110, section 15.5.16), with the supported media types in Accept-Post (W3C Linked Data Platform, section 7.1). */
export function unsupportedMediaType(supported: string): RequestError {
  return new RequestError(415, "unsupported_media_type", `the Content-Type must be ${supported}`, {
    headers: { "accept-post": supported },
  });
}

/** Compiles the reader of a google.api.HttpBody: of any media type, or of the types in the `consumes` option. */
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
    const bytes = request.hasBody() ? await readDecoded(request, maxBytes) : new Uint8Array();
    return withReservation(bytes, request, (data) => raw.wrap({ contentType: contentType ?? "", data }));
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

function resolveBodyFields(desc: DescMessage, body: string): DescField[] {
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
  throw new Error(
    `consumes: ${type} is not supported for body: "${options.body}"; use application/json, or with body: "*" also ${FORM_TYPE} and ${MULTIPART_TYPE}`,
  );
}

/** Compiles the parser of a JSON body: the whole message, or the field that `body` names. */
export function createJsonParser(
  desc: DescMessage,
  options: Pick<
    BodyOptions,
    "body" | "ignoreUnknown" | "ignoreEnumCase" | "maxDepth" | "prototypeKeys" | "registry" | "setMask"
  >,
): BodyParser {
  const readers = createJsonReaders(options);
  const { maxDepth, prototypeKeys, setMask } = options;
  if (options.body === "*") {
    const read = readers.message(desc);
    const parsing = { exact: messageHoldsInt64(desc), prototypeKeys };
    return (bytes) => read(parseJson(bytes, maxDepth, parsing), []) as Message;
  }
  const [field] = resolveBodyFields(desc, options.body);
  if (field === undefined) {
    throw new Error(`${desc.typeName}: the rule has no body to read JSON from`);
  }
  const read = readers.field(field);
  const root = [field.jsonName];
  const parsing = { root, exact: holdsInt64(field), prototypeKeys };
  return (bytes) => {
    const json = parseJson(bytes, maxDepth, parsing);
    const value = read(json, root);
    const message = value === undefined ? create(desc) : withField(desc, field, value);
    setMask?.(message, json);
    return message;
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
