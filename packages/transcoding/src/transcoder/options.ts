import type { DescMethod, Registry } from "@bufbuild/protobuf";
import type { ConnectError, ConnectRouter, HandlerContext, Interceptor } from "@connectrpc/connect";
import type { Rule } from "../routing/routes.ts";
import type { CompressionOptions } from "../response/compression.ts";
import type { CorsOptions } from "../http/cors.ts";
import type { ErrorFormat } from "../errors/format.ts";
import { createReachableRegistry } from "../schema/registry.ts";
import type { StreamFormats } from "../stream/framing.ts";

/** Every option of a transcoder; `completeOptions` fills in what is absent. */
export type TranscoderOptions = {
  /** The function that registers services with Connect. RPCs with a google.api.http rule are served. */
  routes: (router: ConnectRouter) => unknown;
  /** As Connect's own: the last one is applied first. They see the same calls as over RPC. */
  interceptors?: readonly Interceptor[];
  /** As Connect's own: runs before a request's body is read. Throw a ConnectError to refuse the call. */
  requestGate?: (context: HandlerContext) => void | Promise<void>;
  /**
   * Called with whatever ended a call, but not with what is wrong with its request; the returned error is answered in its
   * place. The place to log unexpected errors, and to give them a code. Must not throw. Default: a ConnectError is answered
   * as it is, anything else as `internal`, without saying more.
   */
  mapError?: (error: unknown, context: HandlerContext) => ConnectError;
  /**
   * Rules from outside the .proto, as in the `http` section of a Google API service configuration: each
   * names its methods by `selector`, the full name of one or a prefix with a wildcard (`acme.v1.*`). Such a
   * rule takes the place of the method's own; of several for a method, the last. Its `options` are what the
   * (transcoding.v1.method) option would say. Default: none.
   */
  rules?: readonly Rule[];
  /**
   * Refuse, at start-up, templates that http.proto's grammar does not have but this transcoder
   * understands. Default: false, for no request is served otherwise because of them.
   */
  strictTemplates?: boolean;
  /**
   * A query parameter that names no field: a 400 that names it, or nothing. Default: "reject", lest a
   * misspelt filter be taken for none.
   */
  unknownQuery?: "reject" | "ignore";
  /**
   * A query parameter for a field that the path or the body fills: a 400, or nothing. Under neither does
   * it change the field. Default: "reject".
   */
  boundQuery?: "reject" | "ignore";
  /** A longer body is answered 413, also one that is longer once decompressed. Default: 4 MiB. */
  maxBodyBytes?: number;
  /** A JSON body, or a query parameter's path, nested deeper is answered 400. Default: 100, what binary decoders take. At most 500. */
  maxDepth?: number;
  /**
   * Methods whose request messages are decoded when their fields are read first, so that an implementation can have them
   * decoded on another thread: `takeUndecoded` gives the request as it was sent, and `createRequestDecoder` makes the message
   * there, with the same checks. Default: none.
   */
  deferred?: readonly DescMethod[];
  /**
   * The longest deadline that a request can set by `Grpc-Timeout`, `Connect-Timeout-Ms` or
   * `X-Server-Timeout`; a longer one is cut to this. A request without such a header has no deadline.
   * Default: 2,147,483,647 ms, the longest that a timer waits.
   */
  maxTimeoutMs?: number;
  /**
   * Of the answers that are streams. `shutdownSignal`: when it is aborted, streams end with UNAVAILABLE, unary calls go on
   * (unlike Connect's own `shutdownSignal`). Default: none. `heartbeatMs`: after so long a silence, an event stream sends a comment, so that
   * no proxy takes it for dead; 0: never. Default: 15,000. `preferred`: what a client gets that takes several forms
   * alike. Default: "ndjson". `json`: what application/json means for a stream, an array, lines of `{"result":…}`
   * or `{"error":…}` (as grpc-gateway), or lines that are the messages, and the last perhaps an error (as ASP.NET Core).
   * Default: "array".
   */
  streams?: { readonly heartbeatMs?: number; readonly shutdownSignal?: AbortSignal } & Partial<StreamFormats>;
  /**
   * Whether answers are compressed where `Accept-Encoding` asks for it, and from which size on. Default: zstd, br
   * and gzip, from 1,024 bytes on, and streams whatever their size; `false` turns it off, for answers that put a secret
   * beside what a caller chose.
   */
  compression?: boolean | CompressionOptions;
  /**
   * The types that a google.protobuf.Any may hold, in bodies and in details of errors. One of a type that is not there is
   * a 400 in a request; in a response it fails the call, as the proto3 JSON mapping says. In the details of an error it is
   * left out, and google.rpc's own are always known. Default: all that the files of the registered services, and what they
   * import, have; and the well-known types.
   */
  registry?: Registry;
  /** Lets pages of other origins call; absent: no CORS header is ever sent, and OPTIONS tells the methods only. */
  cors?: CorsOptions;
  /**
   * The body of an error, those of routing included: "plain" is `{code, message}`, "problem" RFC 9457's
   * application/problem+json, "status" google.rpc.Status, or a function makes it. An error with a detail that has
   * the (transcoding.v1.error) option keeps the shape of that detail. Default: "plain".
   */
  errors?: ErrorFormat;
};

/** The options with nothing left open. */
export type CompleteOptions = Required<
  Omit<TranscoderOptions, "requestGate" | "mapError" | "cors" | "compression" | "streams">
> & {
  readonly requestGate: TranscoderOptions["requestGate"];
  readonly mapError: TranscoderOptions["mapError"];
  readonly cors: CorsOptions | undefined;
  /** undefined: off. */
  readonly compression: Required<CompressionOptions> | undefined;
  readonly streams: Required<Omit<NonNullable<TranscoderOptions["streams"]>, "shutdownSignal">> & {
    readonly shutdownSignal: AbortSignal | undefined;
  };
};

/** Readers and writers call themselves for each level; at 900, a Struct in an Any would exhaust the stack. */
const MAX_DEPTH = 500;

/** What a timer can wait; beyond it, Node lets it fire at once. */
const MAX_TIMER_MS = 2_147_483_647;

/**
 * Fills in the defaults, and refuses what can't be meant: the only place that knows either. `methods` are those that
 * the routes register.
 */
export function completeOptions(options: TranscoderOptions, methods: readonly DescMethod[]): CompleteOptions {
  const compression = options.compression ?? true;
  const complete: CompleteOptions = {
    routes: options.routes,
    interceptors: options.interceptors ?? [],
    requestGate: options.requestGate,
    mapError: options.mapError,
    rules: options.rules ?? [],
    strictTemplates: options.strictTemplates ?? false,
    unknownQuery: options.unknownQuery ?? "reject",
    boundQuery: options.boundQuery ?? "reject",
    maxBodyBytes: options.maxBodyBytes ?? 4 * 1024 * 1024,
    maxDepth: options.maxDepth ?? 100,
    deferred: options.deferred ?? [],
    maxTimeoutMs: options.maxTimeoutMs ?? MAX_TIMER_MS,
    streams: {
      heartbeatMs: options.streams?.heartbeatMs ?? 15_000,
      shutdownSignal: options.streams?.shutdownSignal,
      preferred: options.streams?.preferred ?? "ndjson",
      json: options.streams?.json ?? "array",
    },
    compression:
      compression === false
        ? undefined
        : {
            encodings: ["zstd", "br", "gzip"],
            minBytes: 1024,
            streams: true,
            ...(compression === true ? {} : compression),
          },
    registry: options.registry ?? createReachableRegistry(methods),
    cors: options.cors,
    errors: options.errors ?? "plain",
  };
  requireNumber("maxBodyBytes", complete.maxBodyBytes, 0, Number.MAX_SAFE_INTEGER);
  requireNumber("maxDepth", complete.maxDepth, 1, MAX_DEPTH);
  requireNumber("maxTimeoutMs", complete.maxTimeoutMs, 1, MAX_TIMER_MS);
  requireNumber("streams.heartbeatMs", complete.streams.heartbeatMs, 0, MAX_TIMER_MS);
  if (complete.compression !== undefined) {
    requireNumber("compression.minBytes", complete.compression.minBytes, 0, Number.MAX_SAFE_INTEGER);
  }
  return complete;
}

function requireNumber(name: string, value: number, least: number, most: number): void {
  if (!(value >= least && value <= most)) {
    throw new RangeError(`${name} must be a number from ${least} to ${most}, not ${value}`);
  }
}
