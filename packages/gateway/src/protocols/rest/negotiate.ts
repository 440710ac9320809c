import type { DescMethod } from "@bufbuild/protobuf";
import { createResponder, type Responder, type RespondOptions } from "./response/respond.ts";
import { createStreamResponder, type RespondStream } from "./stream/respond.ts";
import type { Compressor } from "./response/compressor.ts";
import type { OpenStreamsOf } from "../../call/shutdown.ts";
import { accepts, JSON_TYPE } from "../../http/media-type.ts";
import type { GatewayRequest, RequestHeaders } from "../../http/request.ts";
import { RequestError } from "../../http/request-error.ts";
import type { CompleteGatewayOptions } from "../../options/options.ts";
import type { Route, Variant } from "../../routing/route.ts";
import { findRawBody } from "../../schema/http-body.ts";
import { findRepresentations } from "../../schema/representations.ts";

export type NegotiationOptions = RespondOptions & {
  /** Undefined if compression is off. */
  readonly compressor: Compressor | undefined;
};

/**
 * Compiles the negotiation for a single response message: the returned function selects the responder. It throws a RequestError of
 * status 406 if the client does not accept the response.
 */
export function createNegotiation(
  { method }: Route,
  variant: Variant,
  options: NegotiationOptions,
): (request: GatewayRequest) => Responder {
  const assertAccepted = createAcceptCheck(method, variant, options.compressor);
  const respond = createResponder(method, variant, options);
  return ({ headers }) => {
    assertAccepted(headers);
    return respond;
  };
}

export type StreamNegotiationOptions = NegotiationOptions &
  Pick<CompleteGatewayOptions, "streams" | "shutdownSignal"> & { readonly openStreamsOf: OpenStreamsOf };

/**
 * Compiles the negotiation for a server stream: the returned function selects the responder and thereby the format. It throws a
 * RequestError of status 406 if the client accepts none.
 */
export function createStreamNegotiation(
  { method }: Route,
  variant: Variant,
  { registry, jsonOptions, streams, compression, ...options }: StreamNegotiationOptions,
  onlyNdjson: boolean,
): (request: GatewayRequest) => RespondStream {
  const openStreams = options.openStreamsOf(options.shutdownSignal);
  const negotiate = createStreamResponder(method, variant, {
    ...streams,
    registry,
    jsonOptions,
    onlyNdjson,
    openStreams,
  });
  const compressor = compression?.streams === true ? options.compressor : undefined;
  return ({ headers }) => {
    const respond = negotiate(headers.accept);
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
