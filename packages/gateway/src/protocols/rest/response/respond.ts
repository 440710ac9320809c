import type { DescMethod, Message, Registry } from "@bufbuild/protobuf";
import { decodeUtf8, encodeUtf8 } from "#platform/bytes";
import { addVary, type GatewayResponse } from "../../../http/response.ts";
import { cacheFrozen } from "../../../call/cache-frozen.ts";
import { type CallContext, setHeadersOf } from "../../../call/context.ts";
import type { CompressionOptions } from "../../../options/options.ts";
import { etagSuffix } from "./compressor.ts";
import type { Variant } from "../../../routing/route.ts";
import { successOf } from "./status.ts";
import { createEncodedBodyWriter } from "./encoded-field.ts";
import { createHeaderWriter } from "../../../json/header-writer.ts";
import { contentTypeOf, findRawBody } from "../../../schema/http-body.ts";
import type { CompleteJsonOptions } from "../../../json/json-options.ts";
import { formatJson } from "../../../json/well-formed.ts";
import { createBodyWriter } from "../../../json/write-body.ts";
import { createFieldTextReader } from "../../../json/field-text.ts";
import { findMatch, formatETag, tagOf } from "../../../http/etag.ts";
import type { GatewayRequest } from "../../../http/request.ts";
import { methodRule } from "../../../schema/rules.ts";
import { JSON_TYPE, preferredOf } from "../../../http/media-type.ts";
import { getField } from "../../../schema/field-value.ts";
import { findRepresentations } from "../../../schema/representations.ts";

/** Creates the HTTP response of a response message, with the headers and the status that the implementation set in the context. */
export type Responder = (request: GatewayRequest, message: Message, context: CallContext) => GatewayResponse;

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
  const readTag = etag === "" ? undefined : createFieldTextReader(method.output, etag, "the ETag");
  const setFields = createHeaderWriter(method.output);
  const raw = findRawBody(method.output, variant.responseBody);
  const choose = createRepresentationChoice(method);
  const write = createBodyWriter(method.output, variant.responseBody, registry, "response", jsonOptions);
  const writeEncoded = createEncodedBodyWriter(method.output, variant.responseBody, write, jsonOptions);
  const suffixes = ["", ...(options.compression?.encodings ?? []).map((encoding) => etagSuffix(encoding))];

  const encode = cacheFrozen((message): Pick<GatewayResponse, "body" | "compressed"> => {
    const json = writeEncoded(message) ?? formatJson(write(message));
    return Object.isFrozen(message)
      ? { body: json.length < SMALL_CHARS ? asText(json) : asBytes(json), compressed: new Map() }
      : { body: json };
  });

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

  return (request, message, context) => {
    const headers = setHeadersOf(context);
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
    const { status, hasBody } = successOf(context, variant);
    if (!hasBody) {
      return { status, headers, body: undefined };
    }
    if (raw !== undefined) {
      const rawBody = raw.unwrap(message);
      headers["content-type"] = contentTypeOf(rawBody);
      return { status, headers, body: rawBody?.data ?? new Uint8Array() };
    }
    if (choose !== undefined) {
      addVary(headers, "Accept");
      const chosen = choose(request.headers.accept);
      if (chosen?.read !== undefined) {
        headers["content-type"] = `${chosen.mediaType}; charset=utf-8`;
        return { status, headers, body: chosen.read(message) };
      }
    }
    headers["content-type"] = "application/json";
    const { body, compressed } = encode(message);
    return compressed === undefined ? { status, headers, body } : { status, headers, body, compressed };
  };
}

function asText(json: string | Uint8Array): string | Uint8Array {
  return typeof json === "string" ? json : (decodeUtf8(json) ?? json);
}

function asBytes(json: string | Uint8Array): Uint8Array {
  return typeof json === "string" ? encodeUtf8(json) : json;
}

/** A media type of the response. `read` returns the body from a response message; undefined for JSON. */
type Representation = { readonly mediaType: string; readonly read?: (message: Message) => string };

/**
 * Compiles the choice of a representation by the Accept header; JSON takes precedence if it is preferred equally, and is used if
 * none is accepted. Undefined if the method has no other representation.
 */
function createRepresentationChoice(
  method: DescMethod,
): ((accept: string | undefined) => Representation | undefined) | undefined {
  const representations = findRepresentations(method).map(({ mediaType, field }) => ({
    mediaType,
    read: (message: Message) => {
      const text = (getField(message, field) as string | undefined) ?? "";
      if (!text.isWellFormed()) {
        throw new RangeError(`${field.toString()} can't hold a lone surrogate`);
      }
      return text;
    },
  }));
  if (representations.length === 0) {
    return undefined;
  }
  return (accept) => {
    if (accept === undefined || accept === "") {
      return undefined;
    }
    return preferredOf<Representation>(accept, [{ mediaType: JSON_TYPE }, ...representations]);
  };
}
