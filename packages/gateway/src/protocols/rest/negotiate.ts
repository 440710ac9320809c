import type { GatewayRequest, RequestHeaders } from "../../http/request.ts";
import { createAltReader } from "./request/system-parameters.ts";
import type { Compressor } from "./response/compressor.ts";
import { createResponder, type Responder, type RespondOptions } from "./response/respond.ts";
import type { Route, Variant } from "../../routing/route.ts";
import { findRawBody } from "../../schema/http-body.ts";
import { createStreamResponder, type RespondStream } from "./stream/respond.ts";
import type { OpenStreamsOf } from "../../call/shutdown.ts";
import type { CompleteGatewayOptions } from "../../options/options.ts";
import type { DescMethod } from "@bufbuild/protobuf";
import { RequestError } from "../../http/request-error.ts";
import { JSON_TYPE, accepts } from "../../http/media-type.ts";
import { findRepresentations } from "../../schema/representations.ts";

export type NegotiationOptions = RespondOptions & {
  readonly systemParameters: boolean;
  readonly ignoredQuery: readonly string[];
  /** Undefined if compression is off. */
  readonly compressor: Compressor | undefined;
};

/**
 * Compiles the negotiation for a single response message: the returned function selects the responder. It throws a RequestError of
 * status 406 if the client does not accept the response.
 */
export function createNegotiation(
  route: Route,
  variant: Variant,
  options: NegotiationOptions,
): (request: GatewayRequest) => Responder {
  const { method } = route;
  const assertAccepted = createAcceptCheck(method, variant, options.compressor);
  const respond = createResponder(method, variant, options);
  if (!options.systemParameters) {
    return ({ headers }) => {
      assertAccepted(headers);
      return respond;
    };
  }
  const isRaw = findRawBody(method.output, variant.responseBody) !== undefined;
  const readAlt = createAltReader(route, variant, {
    formats: isRaw ? ["json", "media"] : ["json"],
    ignoredQuery: options.ignoredQuery,
  });
  const respondWithNumbers = createResponder(method, variant, {
    ...options,
    jsonOptions: { ...options.jsonOptions, enumAsInteger: true },
  });
  return ({ headers, target }) => {
    assertAccepted(headers);
    return readAlt(target).enumAsInteger ? respondWithNumbers : respond;
  };
}

export type StreamNegotiationOptions = NegotiationOptions &
  Pick<CompleteGatewayOptions, "streams" | "shutdownSignal"> & { readonly openStreamsOf: OpenStreamsOf };

/**
 * Compiles the negotiation for a server stream: the returned function selects the responder and thereby the format. It throws a
 * RequestError of status 406 if the client accepts none.
 */
export function createStreamNegotiation(
  route: Route,
  variant: Variant,
  options: StreamNegotiationOptions,
  onlyNdjson: boolean,
): (request: GatewayRequest) => RespondStream {
  const { registry, jsonOptions, streams } = options;
  const openStreams = options.openStreamsOf(options.shutdownSignal);
  const streamOptions = { ...streams, registry, jsonOptions, onlyNdjson, openStreams };
  const negotiate = createStreamResponder(route.method, variant, streamOptions);
  const compressor = options.compression?.streams === true ? options.compressor : undefined;
  if (!options.systemParameters) {
    return ({ headers }) => {
      const respond = negotiate(headers.accept);
      compressor?.assertAccepted(headers["accept-encoding"]);
      return respond;
    };
  }
  const isRaw = findRawBody(route.method.output, variant.responseBody) !== undefined;
  const readAlt = createAltReader(route, variant, {
    formats: isRaw ? ["json", "media"] : onlyNdjson ? ["json"] : ["json", "sse"],
    ignoredQuery: options.ignoredQuery,
  });
  const negotiateWithNumbers = createStreamResponder(route.method, variant, {
    ...streamOptions,
    jsonOptions: { ...jsonOptions, enumAsInteger: true },
  });
  return ({ headers, target }) => {
    const { format, enumAsInteger } = readAlt(target);
    const accept = format === "sse" ? "text/event-stream" : headers.accept;
    const respond = enumAsInteger ? negotiateWithNumbers(accept) : negotiate(accept);
    compressor?.assertAccepted(headers["accept-encoding"]);
    return respond;
  };
}

/**
 * Compiles the check that the client accepts the response of a method with a single response message; the check throws
 * a RequestError of status 406. The media type of a raw body is only known afterwards, and not checked.
 */
function createAcceptCheck(
  method: DescMethod,
  variant: Variant,
  compressor: Compressor | undefined,
): (headers: RequestHeaders) => void {
  if (!variant.hasBody) {
    return () => {};
  }
  const isJson = findRawBody(method.output, variant.responseBody) === undefined;
  const mediaTypes = [JSON_TYPE, ...findRepresentations(method).map(({ mediaType }) => mediaType)];
  const message = `this operation responds with ${mediaTypes.join(" or ")}`;
  return (headers) => {
    if (isJson && !mediaTypes.some((mediaType) => accepts(headers.accept, mediaType))) {
      throw new RequestError(406, "not_acceptable", message, { headers: { vary: "Accept" } });
    }
    compressor?.assertAccepted(headers["accept-encoding"]);
  };
}
