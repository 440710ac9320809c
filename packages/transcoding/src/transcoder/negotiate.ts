import type { TranscodingRequest } from "../http/request.ts";
import { createAltReader } from "../request/system-parameters.ts";
import type { Route, Variant } from "../routing/route.ts";
import { findRawBody } from "../schema/http-body.ts";
import { createAcceptCheck } from "../response/accept.ts";
import type { Compressor } from "../response/compression.ts";
import { createResponder, type Responder, type RespondOptions } from "../response/respond.ts";

export type NegotiationOptions = RespondOptions & {
  readonly systemParameters: boolean;
  /** Undefined if compression is off. */
  readonly compressor: Compressor | undefined;
};

/**
 * Compiles the choice of the responder of a single response message. It throws a RequestError of status 406 if the client does
 * not accept the response.
 */
export function createNegotiation(
  route: Route,
  variant: Variant,
  options: NegotiationOptions,
): (request: TranscodingRequest) => Responder {
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
  const readAlt = createAltReader(route, variant, isRaw ? ["json", "media"] : ["json"]);
  const respondWithNumbers = createResponder(method, variant, {
    ...options,
    jsonOptions: { ...options.jsonOptions, enumAsInteger: true },
  });
  return ({ headers, target }) => {
    assertAccepted(headers);
    return readAlt(target).enumAsInteger ? respondWithNumbers : respond;
  };
}
