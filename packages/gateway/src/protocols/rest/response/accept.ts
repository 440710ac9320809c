import type { DescMethod } from "@bufbuild/protobuf";
import type { RequestHeaders } from "../../../http/request-headers.ts";
import type { Variant } from "../../../routing/route.ts";
import type { Compressor } from "./compressor.ts";
import { RequestError } from "../../../http/request-error.ts";
import { findRawBody } from "../../../schema/http-body.ts";
import { JSON_TYPE, accepts } from "../../../http/media-type.ts";
import { findRepresentations } from "../../../schema/representations.ts";

/**
 * Compiles the check that the client accepts the response of a method with a single response message; the check throws
 * a RequestError of status 406. The media type of a raw body is only known afterwards, and not checked.
 */
export function createAcceptCheck(
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
