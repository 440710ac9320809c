import { utf8Length } from "#platform/bytes";
import type { GatewayResponse } from "../http/response.ts";

/**
 * Sets Content-Length, unless the body is a stream, is followed by trailers, or the response can't have one. Returns the length of a
 * text or of bytes.
 */
export function setContentLength(
  { status, headers, body, trailers }: GatewayResponse,
  httpMethod: string,
): number | undefined {
  if (trailers !== undefined) {
    return undefined;
  }
  if (typeof body === "string" || body instanceof Uint8Array) {
    const bytes = typeof body === "string" ? utf8Length(body) : body.length;
    headers["content-length"] = String(bytes);
    return bytes;
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
  return undefined;
}
