import type { DescMessage, DescMethod } from "@bufbuild/protobuf";
import type { TranscodingResponse } from "./response.ts";
import type { TranscodingRequest } from "./request.ts";
import { fieldRule, methodRule } from "../schema/rules.ts";
import { addVary } from "./vary.ts";

/** Which pages of other origins may call, and what they see (the Fetch standard's CORS protocol). */
export type CorsOptions = {
  /** The origins as a browser sends them, `https://app.example`; `"*"` is any. Or a function that decides. */
  readonly origins: readonly string[] | ((origin: string) => boolean);
  /** Lets them send cookies and the like; not for the origin `"*"`. Default: false. */
  readonly credentials?: boolean;
  /**
   * The response headers that a page may read, beside those that any may. Default: ETag, Retry-After,
   * WWW-Authenticate, and those that the methods' messages and options name.
   */
  readonly exposeHeaders?: readonly string[];
  /** For how long a browser need not ask again, in seconds. Default: 600. */
  readonly maxAgeSeconds?: number;
};

/** The headers that a page may send to any operation. */
const requestHeaders = [
  "Accept",
  "Authorization",
  "Connect-Timeout-Ms",
  "Content-Encoding",
  "Content-Type",
  "Grpc-Timeout",
  "If-Match",
  "If-None-Match",
  "X-Server-Timeout",
];

const responseHeaders = ["ETag", "Retry-After", "WWW-Authenticate"];

/** The CORS protocol for the responses of one server. */
export type CorsPolicy = {
  /**
   * Sets the headers that any response to a request has. Vary must be added to, not replaced. Returns whether the request
   * is a preflight from an allowed origin.
   */
  readonly setHeaders: (request: CorsRequest, set: (name: string, value: string) => void) => boolean;
  /** What the response to such a preflight has beside them. Both arguments are lists of names, separated by commas. */
  readonly preflightHeaders: (allowMethods: string, allowHeaders: string) => Record<string, string>;
};

type CorsRequest = Pick<TranscodingRequest, "httpMethod" | "headers">;

/** Compiles the options, with the headers that pages may read by default. Throws for an option that is wrong. */
export function createCorsPolicy(options: CorsOptions, exposedHeaders: readonly string[]): CorsPolicy {
  const { origins, credentials = false, maxAgeSeconds = 600 } = options;
  const isAllowed = createOriginCheck(origins);
  const any = typeof origins !== "function" && origins.includes("*");
  if (any && credentials) {
    throw new Error('cors: with credentials, the origin "*" would let every page act for its reader; name the origins');
  }
  const exposeHeaders = joinHeaderNames(options.exposeHeaders ?? exposedHeaders);
  return {
    setHeaders({ httpMethod, headers }, set) {
      const { origin, "access-control-request-method": requestMethod } = headers;
      if (!any) {
        set("vary", "Origin");
      }
      if (typeof origin !== "string" || !isAllowed(origin)) {
        return false;
      }
      set("access-control-allow-origin", any ? "*" : origin);
      if (credentials) {
        set("access-control-allow-credentials", "true");
      }
      if (httpMethod === "OPTIONS" && requestMethod !== undefined) {
        return true;
      }
      if (exposeHeaders !== "") {
        set("access-control-expose-headers", exposeHeaders);
      }
      return false;
    },
    preflightHeaders: (allowMethods, allowHeaders) => ({
      "access-control-allow-methods": allowMethods,
      "access-control-allow-headers": allowHeaders,
      "access-control-max-age": String(maxAgeSeconds),
    }),
  };
}

/** Compiles the option `origins` to a check of an origin. Throws for one that is wrong. */
export function createOriginCheck(origins: CorsOptions["origins"]): (origin: string) => boolean {
  if (typeof origins === "function") {
    return origins;
  }
  for (const origin of origins) {
    if (!/^(?:\*|null|[a-z][a-z0-9+.-]*:\/\/[^/\s?#@]+)$/.test(origin)) {
      throw new Error(
        `cors: an origin has a scheme, a host, and no path, such as https://app.example, not "${origin}"`,
      );
    }
  }
  const allowed = new Set(origins);
  return allowed.has("*") ? () => true : (origin) => allowed.has(origin);
}

/** Finds the method that a request would call. */
export type FindMethod = (httpMethod: string, target: string) => DescMethod | undefined;

/** Sets the CORS headers of a response. */
export type Cors = (request: TranscodingRequest, response: TranscodingResponse) => void;

/**
 * Compiles the option of a transcoder; throws at start-up where it is wrong. It applies to any response, errors too; the
 * response to OPTIONS, whose Allow lists the methods of the path, becomes that to a preflight.
 */
export function createCors(options: CorsOptions, methods: Iterable<DescMethod>, find: FindMethod): Cors {
  const all = [...methods];
  const policy = createCorsPolicy(options, [...responseHeaders, ...all.flatMap(ownResponseHeaders)]);
  const allowHeaders = new Map(
    all.map((method) => [method, joinHeaderNames([...requestHeaders, ...ownRequestHeaders(method)])]),
  );
  const defaultHeaders = joinHeaderNames(requestHeaders);
  return (request, { headers }) => {
    const isPreflight = policy.setHeaders(request, (name, value) => {
      if (name === "vary") {
        addVary(headers, value);
      } else {
        headers[name] = value;
      }
    });
    const { allow } = headers;
    if (isPreflight && typeof allow === "string") {
      const method = find(request.headers["access-control-request-method"] ?? "", request.target);
      const names = (method && allowHeaders.get(method)) ?? defaultHeaders;
      Object.assign(headers, policy.preflightHeaders(allow, names));
    }
  };
}

/** The headers that the methods' options and messages name, for servers that implement CORS elsewhere. */
export function headersOf(methods: readonly DescMethod[]): {
  readonly request: string[];
  readonly response: string[];
} {
  return { request: methods.flatMap(ownRequestHeaders), response: methods.flatMap(ownResponseHeaders) };
}

function ownRequestHeaders(method: DescMethod): string[] {
  const { variants } = methodRule(method);
  return [...(variants === undefined ? [] : [variants.header]), ...boundHeaders(method.input)];
}

function ownResponseHeaders(method: DescMethod): string[] {
  return [...methodRule(method).headers.map(({ name }) => name), ...boundHeaders(method.output)];
}

function boundHeaders(desc: DescMessage): string[] {
  return desc.fields.map((field) => fieldRule(field).header).filter((name) => name !== "");
}

/** One list, with each name once, whatever its case. */
export function joinHeaderNames(names: readonly string[]): string {
  return [...new Map(names.map((name) => [name.toLowerCase(), name])).values()].join(", ");
}
