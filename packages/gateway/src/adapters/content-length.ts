import { utf8Length } from "#platform/bytes";
import type { GatewayResponse } from "../http/response.ts";

/**
 * Sets Content-Length, unless the body is a stream, is followed by trailers, or the response can't have one. Returns
 * the encoding in which Node writes a text body fastest; Node ignores it for bytes.
 */
export function setContentLength(
  { status, headers, body, trailers }: GatewayResponse,
  httpMethod: string,
): "latin1" | "utf8" {
  if (trailers !== undefined) {
    return "utf8";
  }
  if (typeof body === "string" || body instanceof Uint8Array) {
    const bytes = typeof body === "string" ? utf8Length(body) : body.length;
    headers["content-length"] = String(bytes);
    // A text with as many bytes as characters is ASCII, and Latin-1 is written without conversion.
    return bytes === body.length ? "latin1" : "utf8";
  }
  if (
    body === undefined &&
    headers["content-length"] === undefined &&
    status !== 204 &&
    status !== 304 &&
    httpMethod !== "HEAD"
  ) {
    headers["content-length"] = "0";
  }
  return "utf8";
}
