import type { DescMethod } from "@bufbuild/protobuf";
import { cors as connectCors } from "@connectrpc/connect";
import { corsHeadersOf } from "@flowgate/gateway";
import { createCorsPolicy, joinHeaderNames } from "@flowgate/gateway/server";
import type { Guard } from "../pipeline.ts";

export type CorsOptions = {
  /** Serialized as browsers send them (`https://app.example`), or `"*"` for any origin. */
  readonly origins: readonly string[];
  /** The time for which browsers may cache a preflight response. */
  readonly maxAgeSeconds: number;
};

/** The same for all paths; the actual request fails if its path does not support the method. */
const allowedMethods = [...new Set([...connectCors.allowedMethods, "HEAD", "PUT", "PATCH", "DELETE"])].join(", ");

const requestHeaders = [
  ...connectCors.allowedHeaders,
  "Authorization",
  "If-Match",
  "If-None-Match",
  "If-Unmodified-Since",
  "Service-Known-Revision",
  "Traceparent",
  "Tracestate",
  "X-Request-Id",
  "X-Server-Timeout",
];

const responseHeaders = [
  ...connectCors.exposedHeaders,
  "Allow",
  "ETag",
  "Retry-After",
  "WWW-Authenticate",
  "X-Request-Id",
];

/**
 * Implements the CORS protocol of the Fetch standard for these origins, on all responses and error responses of every
 * protocol. Responds to preflight requests. Allows neither credentials that browsers add automatically nor Private
 * Network Access.
 */
export function createCorsGuard(options: CorsOptions, methods: readonly DescMethod[]): Guard {
  const own = corsHeadersOf(methods);
  const policy = createCorsPolicy(options, [...responseHeaders, ...own.response]);
  const allowHeaders = joinHeaderNames([...requestHeaders, ...own.request]);
  return (request) =>
    policy.setHeaders(request, (name, value) => request.setResponseHeader(name, value))
      ? { status: 204, headers: policy.preflightHeaders(allowedMethods, allowHeaders), body: undefined }
      : undefined;
}
