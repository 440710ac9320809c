import type { DescMethod } from "@bufbuild/protobuf";
import type { IncomingHttpHeaders } from "node:http";
import type { Variant } from "../routing/route.ts";
import type { Compressor } from "./compression.ts";
import { RequestError } from "../http/request-error.ts";
import { findRawBody } from "../schema/http-body.ts";
import { accepts } from "../http/media-type.ts";

/**
 * Compiles the check whether a client takes the answer of a method that gives one message; it throws a
 * RequestError 406 where it does not. What a raw body is, nobody knows before it is there.
 */
export function createAcceptCheck(
  method: DescMethod,
  variant: Variant,
  compressor: Compressor | undefined,
): (headers: IncomingHttpHeaders) => void {
  if (!variant.hasBody) {
    return () => {};
  }
  const isJson = findRawBody(method.output, variant.responseBody) === undefined;
  return (headers) => {
    if (isJson && !accepts(headers.accept, "application/json")) {
      throw new RequestError(406, "not_acceptable", "this operation answers application/json", {
        headers: { vary: "Accept" },
      });
    }
    compressor?.assertAccepted(headers["accept-encoding"]);
  };
}
