import type { DescMethod } from "@bufbuild/protobuf";
import { cors as connectCors } from "@connectrpc/connect";
import { headersOf } from "@flowgate/transcoding";
import type { Guard } from "../pipeline/pipeline.ts";

export type CorsOptions = {
  /** As browsers send them, `https://app.example`; `"*"` is any. */
  readonly origins: readonly string[];
  /** For how long a browser need not ask again. */
  readonly maxAgeSeconds: number;
};

/** Whether pages of an origin may call. */
export function createOriginList(origins: readonly string[] = []): (origin: string) => boolean {
  const listed = new Set(origins);
  return listed.has("*") ? () => true : (origin) => listed.has(origin);
}

/** Whether a path has a method is for its answer to say. */
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
 * Lets pages of these origins call: the CORS protocol of the Fetch standard, for every response and refusal of each
 * protocol. Preflights are answered here. Credentials that a browser adds by itself are never allowed, nor are requests
 * from a public page into a private network.
 */
export function createCorsGuard({ origins, maxAgeSeconds }: CorsOptions, methods: readonly DescMethod[]): Guard {
  const isListed = createOriginList(origins);
  const isAny = origins.includes("*");
  const own = headersOf(methods);
  const allowHeaders = joinNames([...requestHeaders, ...own.request]);
  const exposeHeaders = joinNames([...responseHeaders, ...own.response]);

  return (request) => {
    const { origin, "access-control-request-method": asked } = request.headers;
    if (!isAny) {
      request.setResponseHeader("vary", "Origin");
    }
    if (origin === undefined || !isListed(origin)) {
      return undefined;
    }
    request.setResponseHeader("access-control-allow-origin", isAny ? "*" : origin);
    if (request.httpMethod !== "OPTIONS" || asked === undefined) {
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

/** One list; each name once, whatever its case. */
function joinNames(names: readonly string[]): string {
  return [...new Map(names.map((name) => [name.toLowerCase(), name])).values()].join(", ");
}
