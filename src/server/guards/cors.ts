import type { DescMethod } from "@bufbuild/protobuf";
import { cors as connectCors } from "@connectrpc/connect";
import { headersOf } from "@flowgate/transcoding";
import { createCorsPolicy, joinHeaderNames } from "@flowgate/transcoding/server";
import type { Guard } from "../pipeline/pipeline.ts";

export type CorsOptions = {
  /** As browsers send them, `https://app.example`; `"*"` is any. */
  readonly origins: readonly string[];
  /** For how long a browser need not ask again. */
  readonly maxAgeSeconds: number;
};

/** Of all paths. A request with a method that its path does not have is rejected with 405. */
const allowedMethods = [...new Set([...connectCors.allowedMethods, "HEAD", "PUT", "PATCH", "DELETE"])].join(", ");

const requestHeaders = [
  ...connectCors.allowedHeaders,
  "Authorization",
  "If-Match",
  "If-None-Match",
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
 * Allows pages of these origins to call, over all protocols: sets the CORS headers of every response, and responds to
 * preflights. Credentials that a browser adds by itself are never allowed, nor are requests from a public page into a
 * private network.
 */
export function createCorsGuard(options: CorsOptions, methods: readonly DescMethod[]): Guard {
  const own = headersOf(methods);
  const policy = createCorsPolicy(options, [...responseHeaders, ...own.response]);
  const allowHeaders = joinHeaderNames([...requestHeaders, ...own.request]);
  return (request) =>
    policy.setHeaders(request, (name, value) => request.setResponseHeader(name, value))
      ? { status: 204, headers: policy.preflightHeaders(allowedMethods, allowHeaders), body: undefined }
      : undefined;
}
