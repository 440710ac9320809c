import type { DescMessage, DescMethod, Message, Registry } from "@bufbuild/protobuf";
import { FeatureSet_FieldPresence } from "@bufbuild/protobuf/wkt";
import { addHeaders, type TranscodingResponse } from "../http/response.ts";
import { etagSuffix, type CompressionOptions } from "./compression.ts";
import type { Variant } from "../routing/route.ts";
import { createEncodedBodyWriter } from "./encoded-field.ts";
import { createHeaderWriter } from "./header.ts";
import { contentTypeOf, findRawBody, getField } from "../schema/http-body.ts";
import type { Scalar } from "../json/scalar.ts";
import { asValue } from "../json/struct.ts";
import { fieldWriter, messageWriter, type JsonWriter } from "../json/write.ts";
import { findMatch, formatETag, tagOf } from "../http/etag.ts";
import type { TranscodingRequest } from "../http/request.ts";
import { methodRule } from "../schema/rules.ts";
import { addVary } from "../http/vary.ts";

/** Makes the answer of a unary call's response; `set` are the headers that the implementation set. */
export type Responder = (
  request: TranscodingRequest,
  response: Message,
  set: Headers | undefined,
) => TranscodingResponse;

/** Below this Node sends a text faster than bytes: it writes it together with the head. */
const SMALL_CHARS = 16 * 1024;

export type RespondOptions = {
  /** How answers are compressed afterwards; undefined: they are not. */
  readonly compression: Required<CompressionOptions> | undefined;
  readonly registry: Registry;
};

export function createResponder(method: DescMethod, variant: Variant, options: RespondOptions): Responder {
  const { etag } = methodRule(method);
  const readTag = etag === "" ? undefined : createTagReader(method.output, etag);
  const setFields = createHeaderWriter(method.output);
  const raw = findRawBody(method.output, variant.responseBody);
  const write = createBodyWriter(method.output, variant.responseBody, options.registry);
  const writeEncoded = createEncodedBodyWriter(method.output, variant.responseBody, write);
  const encoded = new WeakMap<Message, Pick<TranscodingResponse, "body" | "compressed">>();
  const suffixes = ["", ...(options.compression?.encodings ?? []).map((encoding) => etagSuffix(encoding))];

  /** A frozen message is encoded once. */
  const encode = (response: Message): Pick<TranscodingResponse, "body" | "compressed"> => {
    if (!Object.isFrozen(response)) {
      return { body: writeEncoded(response) ?? JSON.stringify(write(response)) };
    }
    let once = encoded.get(response);
    if (once === undefined) {
      const json = writeEncoded(response) ?? JSON.stringify(write(response));
      once = {
        body: json.length < SMALL_CHARS ? String(json) : typeof json === "string" ? Buffer.from(json) : json,
        compressed: new Map(),
      };
      encoded.set(response, once);
    }
    return once;
  };

  /** The entity tag of that form of the response which the client has; only what it reads it may keep. */
  const findMatching = ({ httpMethod, headers }: TranscodingRequest, value: string): string | undefined => {
    const ifNoneMatch = headers["if-none-match"];
    return ifNoneMatch === undefined || (httpMethod !== "GET" && httpMethod !== "HEAD")
      ? undefined
      : findMatch(
          ifNoneMatch,
          suffixes.map((suffix) => `"${value}${suffix}"`),
        );
  };

  return (request, response, set) => {
    const headers: Record<string, string | string[]> = {};
    if (set !== undefined) {
      addHeaders(headers, set);
    }
    setFields(response, headers);
    if (readTag !== undefined) {
      const value = tagOf(readTag(response));
      const tag = formatETag(value);
      if (tag !== undefined) {
        headers["etag"] = tag;
        const matching = findMatching(request, value);
        if (matching !== undefined) {
          headers["etag"] = matching;
          // As the answer would have had that is not sent (RFC 9110, section 15.4.5).
          if (options.compression !== undefined) {
            addVary(headers, "Accept-Encoding");
          }
          return { status: 304, headers, body: undefined };
        }
      }
    }
    if (!variant.hasBody) {
      return { status: variant.status, headers, body: undefined };
    }
    if (raw !== undefined) {
      const rawBody = raw.unwrap(response);
      headers["content-type"] = contentTypeOf(rawBody);
      return { status: variant.status, headers, body: bufferOf(rawBody?.data) };
    }
    headers["content-type"] = "application/json";
    const { body, compressed } = encode(response);
    return compressed === undefined
      ? { status: variant.status, headers, body }
      : { status: variant.status, headers, body, compressed };
  };
}

/** Writes the value of a response's body: the message, or the field that response_body names; null where that is absent. */
export function createBodyWriter(desc: DescMessage, name: string, registry: Registry): JsonWriter {
  if (name === "") {
    const write = messageWriter(desc, registry);
    return desc.typeName === "google.protobuf.Struct" ? (message) => write(asValue(desc, message)) : write;
  }
  const field = desc.fields.find((each) => each.name === name);
  if (field === undefined) {
    throw new Error(`${desc.typeName} has no field "${name}" that can be the response_body`);
  }
  const write = fieldWriter(field, registry);
  return (message) => {
    const value = getField(message as Message & Record<string, unknown>, field);
    return value === undefined ? null : write(value);
  };
}

/** The same bytes, not a copy. */
function bufferOf(bytes: Uint8Array = new Uint8Array()): Buffer {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

/** Reads the field of the ETag as text, which is empty where the field is absent. */
function createTagReader(desc: DescMessage, name: string): (message: Message) => string {
  const field = desc.fields.find((each) => each.name === name);
  if (field?.fieldKind !== "scalar" || field.oneof !== undefined) {
    throw new Error(`${desc.typeName} has no scalar field "${name}" for the ETag`);
  }
  const { localName } = field;
  const hasPresence = field.presence !== FeatureSet_FieldPresence.IMPLICIT;
  return (message) => {
    const value = (message as unknown as Record<string, Scalar | undefined>)[localName];
    // Absent in proto2 and editions, it shows the default that the prototype has.
    return value === undefined || (hasPresence && !Object.hasOwn(message, localName)) ? "" : String(value);
  };
}
