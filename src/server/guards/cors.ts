import type { DescMethod } from "@bufbuild/protobuf";
import { cors as connectCors } from "@connectrpc/connect";
import { headersOf } from "@flowgate/transcoding";
import type { Guard } from "../pipeline/pipeline.ts";

export type CorsOptions = {
  /** Origins in the form of the Origin header, such as `https://app.example`; `"*"` is any. */
  readonly origins: readonly string[];
  /** How long browsers cache a preflight response. */
  readonly maxAgeSeconds: number;
};

/** Returns a test whether pages of an origin may call. */
export function createOriginList(origins: readonly string[] = []): (origin: string) => boolean {
  const listed = new Set(origins);
  return listed.has("*") ? () => true : (origin) => listed.has(origin);
}

/** The same for all paths; the actual request fails if its path does not support the method. */
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
 * Implements the CORS protocol of the Fetch standard for these origins, on all responses and error responses of every
 * protocol. Responds to preflight requests. Allows neither credentials that browsers add automatically nor Private
 * Network Access.
 */
export function createCorsGuard({ origins, maxAgeSeconds }: CorsOptions, methods: readonly DescMethod[]): Guard {
  const isListed = createOriginList(origins);
  const isAny = origins.includes("*");
  const own = headersOf(methods);
  const allowHeaders = joinNames([...requestHeaders, ...own.request]);
  const exposeHeaders = joinNames([...responseHeaders, ...own.response]);

  return (request) => {
    const { origin, "access-control-request-method": requestedMethod } = request.headers;
    if (!isAny) {
      request.setResponseHeader("vary", "Origin");
    }
    if (origin === undefined || !isListed(origin)) {
      return undefined;
    }
    request.setResponseHeader("access-control-allow-origin", isAny ? "*" : origin);
    if (request.httpMethod !== "OPTIONS" || requestedMethod === undefined) {
      request.setResponseHeader("access-control-expose-headers", exposeHeaders);
      return undefined;
    }
    return {
      status: 204,
      headers: {
        "access-control-allow-methods": allowedMethods,
        "access-control-allow-headers": allowHeaders,
        "access-control-max-age": String(maxAgeSeconds),
      },
      body: undefined,
    };
  };
}

/** A comma-separated list without duplicates, ignoring case. */
function joinNames(names: readonly string[]): string {
  return [...new Map(names.map((name) => [name.toLowerCase(), name])).values()].join(", ");
}
