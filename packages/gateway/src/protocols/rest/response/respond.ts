import type { DescMessage, DescMethod, Message, Registry } from "@bufbuild/protobuf";
import { FeatureSet_FieldPresence } from "@bufbuild/protobuf/wkt";
import { decodeUtf8, encodeUtf8 } from "#platform/bytes";
import { addHeaders, type GatewayResponse } from "../../../http/response.ts";
import { etagSuffix, type CompressionOptions } from "./compressor.ts";
import type { Variant } from "../../../routing/route.ts";
import { createEncodedBodyWriter } from "./encoded-field.ts";
import { createHeaderWriter } from "./headers.ts";
import { createRepresentationChoice } from "./representation.ts";
import { contentTypeOf, findRawBody } from "../../../schema/http-body.ts";
import type { Scalar } from "../../../json/scalar.ts";
import type { CompleteJsonOptions } from "../../../json/json-options.ts";
import { formatJson } from "../../../json/well-formed.ts";
import { createBodyWriter } from "../../../json/write-body.ts";
import { findMatch, formatETag, tagOf } from "../../../http/etag.ts";
import type { GatewayRequest } from "../../../http/request.ts";
import { methodRule } from "../../../schema/rules.ts";
import { addVary } from "../../../http/vary.ts";

/** Creates the HTTP response of a response message. `responseHeader` has the headers that the implementation set. */
export type Responder = (
  request: GatewayRequest,
  message: Message,
  responseHeader: Headers | undefined,
) => GatewayResponse;

/** Up to this length Node sends a string faster than bytes, since it writes it together with the header. */
const SMALL_CHARS = 16 * 1024;

export type RespondOptions = {
  /** The compression that is applied to the response afterwards; undefined for none. */
  readonly compression: Required<CompressionOptions> | undefined;
  readonly registry: Registry;
  readonly jsonOptions: CompleteJsonOptions;
};

export function createResponder(method: DescMethod, variant: Variant, options: RespondOptions): Responder {
  const { etag } = methodRule(method);
  const { registry, jsonOptions } = options;
  const readTag = etag === "" ? undefined : createTagReader(method.output, etag);
  const setFields = createHeaderWriter(method.output);
  const raw = findRawBody(method.output, variant.responseBody);
  const choose = createRepresentationChoice(method);
  const write = createBodyWriter(method.output, variant.responseBody, registry, "response", jsonOptions);
  const writeEncoded = createEncodedBodyWriter(method.output, variant.responseBody, write, jsonOptions);
  const cache = new WeakMap<Message, Pick<GatewayResponse, "body" | "compressed">>();
  const suffixes = ["", ...(options.compression?.encodings ?? []).map((encoding) => etagSuffix(encoding))];

  /** Encodes a message; the result for a frozen one is cached. */
  const encode = (message: Message): Pick<GatewayResponse, "body" | "compressed"> => {
    if (!Object.isFrozen(message)) {
      return { body: writeEncoded(message) ?? formatJson(write(message)) };
    }
    let cached = cache.get(message);
    if (cached === undefined) {
      const json = writeEncoded(message) ?? formatJson(write(message));
      cached = { body: json.length < SMALL_CHARS ? asText(json) : asBytes(json), compressed: new Map() };
      cache.set(message, cached);
    }
    return cached;
  };

  /** The entity tag, of any content coding, that If-None-Match matches. Evaluated for GET and HEAD only. */
  const findMatching = ({ httpMethod, headers }: GatewayRequest, value: string): string | undefined => {
    const ifNoneMatch = headers["if-none-match"];
    if (ifNoneMatch === undefined || (httpMethod !== "GET" && httpMethod !== "HEAD")) {
      return undefined;
    }
    return ifNoneMatch === `"${value}"`
      ? ifNoneMatch
      : findMatch(
          ifNoneMatch,
          suffixes.map((suffix) => `"${value}${suffix}"`),
        );
  };

  return (request, message, responseHeader) => {
    const headers: Record<string, string | string[]> = {};
    if (responseHeader !== undefined) {
      addHeaders(headers, responseHeader);
    }
    setFields(message, headers);
    if (readTag !== undefined) {
      const value = tagOf(readTag(message));
      const tag = formatETag(value);
      if (tag !== undefined) {
        headers["etag"] = tag;
        const matching = findMatching(request, value);
        if (matching !== undefined) {
          headers["etag"] = matching;
          // A 304 has the Vary of the corresponding 200 (RFC 9110, section 15.4.5).
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
      const rawBody = raw.unwrap(message);
      headers["content-type"] = contentTypeOf(rawBody);
      return { status: variant.status, headers, body: rawBody?.data ?? new Uint8Array() };
    }
    if (choose !== undefined) {
      addVary(headers, "Accept");
      const chosen = choose(request.headers.accept);
      if (chosen !== undefined) {
        headers["content-type"] = `${chosen.mediaType}; charset=utf-8`;
        return { status: variant.status, headers, body: chosen.read(message) };
      }
    }
    headers["content-type"] = "application/json";
    const { body, compressed } = encode(message);
    return compressed === undefined
      ? { status: variant.status, headers, body }
      : { status: variant.status, headers, body, compressed };
  };
}

function asText(json: string | Uint8Array): string | Uint8Array {
  return typeof json === "string" ? json : (decodeUtf8(json) ?? json);
}

function asBytes(json: string | Uint8Array): Uint8Array {
  return typeof json === "string" ? encodeUtf8(json) : json;
}

/** Compiles the reader of the `etag` field as a string; empty if the field is not set. */
function createTagReader(desc: DescMessage, name: string): (message: Message) => string {
  const field = desc.fields.find((each) => each.name === name);
  if (field?.fieldKind !== "scalar" || field.oneof !== undefined) {
    throw new Error(`${desc.typeName} has no scalar field "${name}" for the ETag`);
  }
  const { localName } = field;
  const hasPresence = field.presence !== FeatureSet_FieldPresence.IMPLICIT;
  return (message) => {
    const value = (message as unknown as Record<string, Scalar | undefined>)[localName];
    // In proto2 and editions, an unset field has its default value on the prototype.
    return value === undefined || (hasPresence && !Object.hasOwn(message, localName)) ? "" : String(value);
  };
}
