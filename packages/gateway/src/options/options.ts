import type { DescMethod, Registry } from "@bufbuild/protobuf";
import { contentEncodings } from "#platform/compression";
import type {
  ConnectError,
  ConnectRouter,
  ConnectRouterOptions,
  HandlerContext,
  Interceptor,
} from "@connectrpc/connect";
import type { Rule } from "../routing/routes.ts";
import type { CorsOptions } from "../http/cors.ts";
import type { ErrorFormat } from "../errors/format.ts";
import { createErrorReporter, type ReportError } from "../errors/report-error.ts";
import { canonicalJson, type CompleteJsonOptions, type JsonOptions } from "../json/json-options.ts";
import type { PrototypeKeys } from "../json/parse.ts";
import { createReachableRegistry } from "../schema/registry.ts";
import type { ContentEncoding } from "../platform/compression.ts";

export type Protocol = "connect" | "grpc" | "grpc-web" | "rest";

export const allProtocols: readonly Protocol[] = ["connect", "grpc", "grpc-web", "rest"];

export type CompressionOptions = {
  /** The content codings, in the order of preference among those of equal weight in Accept-Encoding. Default: zstd, br, gzip where the runtime supports them. */
  readonly encodings?: readonly ContentEncoding[];
  /** The minimum size of a body to compress, in bytes. Does not apply to streams. Default: 1,024. */
  readonly minBytes?: number;
  /** True if streams are compressed, with a flush after each message. Default: true. */
  readonly streams?: boolean;
};

export type StreamFormats = {
  /** The format for clients without a preference. */
  readonly preferred: "ndjson" | "sse" | "json";
  /** The format of a stream in application/json. */
  readonly json: "array" | "results" | "lines";
};

export type HealthOptions = {
  /** True if a registered service can take calls; "" is the server as a whole. Default: all can. After the shutdown, none can. */
  serves?: (service: string) => boolean;
  /** Called once, with a function that is to be called after each change of what `serves` returns. Default: nothing changes. */
  onChange?: (changed: () => void) => void;
  /**
   * Called before a watch, which stays open until its client or the server ends it; may throw a ConnectError to reject it. Returns a
   * function that is called when the watch ends. Default: watches are not limited.
   */
  admitWatch?: (context: HandlerContext) => (() => void) | Promise<() => void>;
};

export type GatewayOptions = {
  /**
   * The function that registers services with Connect. It is called once for all gateways and documents that get it. Of
   * the options with which a service or method is registered, `interceptors`, `requestGate`, `readMaxBytes`,
   * `maxTimeoutMs`, `shutdownSignal`, `jsonOptions` and `binaryOptions` replace the gateway's.
   */
  routes: (router: ConnectRouter) => unknown;
  /**
   * The served protocols: "rest" is HTTP and JSON, for RPCs with a google.api.http rule; the others serve all RPCs.
   * Default: all protocols that the transport can carry. `["rest"]` is for a server that keeps Connect's own adapters.
   */
  protocols?: readonly Protocol[];
  /**
   * Serves grpc.health.v1.Health: all services are SERVING until `shutdownSignal` is aborted, or as the given functions say. The request
   * gate and the interceptors apply to it. A service of gRPC, which needs another protocol than "rest". Default: false.
   */
  health?: boolean | HealthOptions;
  /** Serves gRPC's reflection (v1 and v1alpha), by which clients such as grpcurl read the .proto. The same applies. Default: false. */
  reflection?: boolean;
  /** Serves all paths below this one, such as "/api". In Fastify, below the prefix of the plugin. Default: "". */
  requestPathPrefix?: string;
  /** Connect interceptors; the last one is applied first. Default: none. */
  interceptors?: readonly Interceptor[];
  /** The `requestGate` of Connect: called before the body is read; may throw a ConnectError to reject the call. Default: none. */
  requestGate?: (context: HandlerContext) => void | Promise<void>;
  /**
   * Maps an error that was thrown during a call, for example to assign a code. Not called for request errors. Default: a ConnectError
   * is sent unchanged, anything else as `internal` without its message.
   */
  mapError?: (error: unknown, context: HandlerContext) => ConnectError;
  /**
   * Called with each unexpected error, for example to log it: an error that is no ConnectError, even after `mapError`,
   * and an error thrown by a function of these options. `context` is the call's, if there is one. Not called for a call
   * whose client has disconnected and that therefore fails with an AbortError. Default: it is written to the console.
   */
  onError?: (error: unknown, context: HandlerContext | undefined) => void;
  /**
   * Rules that are not in the .proto, as in the `http` section of a Google API service configuration. `selector`
   * matches methods by full name, or by a prefix with a wildcard (`acme.v1.*`). A rule replaces the method's own; the
   * last matching one applies. Its `options` replace the (flowgate.gateway.v1.method) option. Default: none.
   */
  rules?: readonly Rule[];
  /**
   * Rejects templates that use this package's extensions of the grammar in http.proto. Default: false, since the extensions
   * don't change the meaning of other templates.
   */
  strictTemplates?: boolean;
  /**
   * Accepts templates with `*`, or a variable of one segment, after `**`, which the grammar in http.proto forbids. Google's APIs
   * have a few, such as `/v1/{parent=documents/**}/{collection_id}` of Firestore. Default: false.
   */
  googleTemplates?: boolean;
  /**
   * Whether a query parameter that matches no field is rejected with 400 or ignored. Default: "reject", so that a misspelled
   * filter is not silently dropped.
   */
  unknownQuery?: "reject" | "ignore";
  /**
   * Whether a query parameter for a field that is bound to the path or the body is rejected with 400 or ignored. It never
   * sets the field. Default: "reject".
   */
  boundQuery?: "reject" | "ignore";
  /**
   * Names of query parameters to ignore, even if `unknownQuery` is "reject" or a field has the name, as Envoy's
   * `ignored_query_parameters`. Default: none.
   */
  ignoredQuery?: readonly string[];
  /** True if a slash at the end of a path is ignored, as by the option of Fastify. Default: false, which is 404. */
  ignoreTrailingSlash?: boolean;
  /**
   * True if the FieldMask of a PATCH, if the client sends none, is set to the fields in the JSON body, as grpc-gateway does. For
   * rules whose body is a message field, and request messages with exactly one FieldMask. Default: false.
   */
  fieldMaskFromBody?: boolean;
  /** The maximum size of a body in bytes, before and after decompression; a larger one is rejected with 413. For a client stream: of each message. Default: 4 MiB. */
  readMaxBytes?: number;
  /**
   * The maximum nesting depth of a JSON body and of a query parameter's name; deeper ones are rejected with 400. From 1 to
   * 500. Default: 100, the limit of binary decoders.
   */
  maxDepth?: number;
  /**
   * Whether the key `__proto__` of a map or a Struct in a JSON body is data, kept as an own property, or rejected with 400
   * for implementations that copy objects by assigning their properties. Default: "accept".
   */
  prototypeKeys?: PrototypeKeys;
  /**
   * Methods whose request messages are decoded on the first access to a field. An implementation can then decode them on
   * another thread: `takeEncodedRequest` returns the encoded request, and `createRequestDecoder` decodes it with the same checks.
   * Default: none.
   */
  deferred?: readonly DescMethod[];
  /**
   * The maximum deadline that a request can set with `Grpc-Timeout`, `Connect-Timeout-Ms` or `X-Server-Timeout`, in ms; longer
   * ones are reduced to it. A request without such a header has no deadline. Default: 2,147,483,647, the maximum of a timer.
   */
  maxTimeoutMs?: number;
  /**
   * Ends streams with UNAVAILABLE when it is aborted. Unlike with Connect's adapters, unary calls continue, so that a
   * change is not left half done. Default: none.
   */
  shutdownSignal?: AbortSignal;
  /**
   * Options of server streams.
   * - `heartbeatMs`: the interval of comments in an event stream while no message is sent, in ms, which prevents proxies
   *   from closing an idle connection; 0 disables them. Default: 15,000.
   * - `preferred`: the format for clients that accept several formats equally. Default: "ndjson".
   * - `json`: the format of application/json: "array"; "results", lines of `{"result":…}` or `{"error":…}` (grpc-gateway);
   *   or "lines", messages and a final error as lines (ASP.NET Core). Default: "array".
   */
  streams?: { readonly heartbeatMs?: number } & Partial<StreamFormats>;
  /**
   * The compression of responses, negotiated by `Accept-Encoding`. `false` disables it, for responses that contain secrets
   * next to text that a caller chose (BREACH). Default: zstd, br and gzip for bodies of 1,024 bytes or more, and for streams.
   */
  compression?: boolean | CompressionOptions;
  /**
   * The types that a google.protobuf.Any in a body or an error detail can contain. An unknown type is rejected with 400
   * in a request, and fails the call in a response, as specified by the proto3 JSON mapping; an error detail of an
   * unknown type is omitted, but the types of google.rpc are always known. Default: the types in the files of the
   * registered services and their imports, and the well-known types.
   */
  registry?: Registry;
  /**
   * The reading and writing of JSON, with protobuf-es names: `ignoreUnknownFields`, `alwaysEmitImplicit`,
   * `enumAsInteger`, `useProtoFieldName`; and `ignoreEnumCase`, `int64AsNumber` and `emitUnsetMessages`. The options
   * for writing also apply to error details. Default: none, as in the proto3 JSON mapping; unlike in Connect, unknown
   * fields of requests are rejected.
   */
  jsonOptions?: JsonOptions;
  /**
   * The `domain` of the google.rpc.ErrorInfo with the reason for which a request was rejected, over RPC: a globally unique name of the
   * service (AIP-193), such as "library.example.com". Default: "".
   */
  errorDomain?: string;
  /** The CORS policy. Default: no CORS headers are sent, and OPTIONS responds with Allow only. */
  cors?: CorsOptions;
  /**
   * The format of error bodies, including routing errors: "plain" is `{code, message, reason?, details?}`, "problem" is
   * application/problem+json (RFC 9457), "status" is google.rpc.Status, "google" is `{error: {code, message, status, details}}`
   * (AIP-193); or a function. An error with a detail whose message has the (flowgate.gateway.v1.error) option is sent in the format
   * of that detail. Default: "plain".
   */
  errors?: ErrorFormat;
};

export type CompleteGatewayOptions = Required<
  Omit<
    GatewayOptions,
    "requestGate" | "mapError" | "onError" | "shutdownSignal" | "cors" | "compression" | "streams" | "jsonOptions"
  >
> & {
  readonly requestGate: GatewayOptions["requestGate"];
  readonly mapError: GatewayOptions["mapError"];
  readonly reportError: ReportError;
  readonly jsonOptions: CompleteJsonOptions;
  readonly cors: CorsOptions | undefined;
  /** Undefined if compression is off. */
  readonly compression: Required<CompressionOptions> | undefined;
  readonly shutdownSignal: AbortSignal | undefined;
  readonly streams: Required<NonNullable<GatewayOptions["streams"]>>;
};

/** The maximum delay of a timer in Node; a longer one fires immediately. */
export const MAX_TIMER_MS = 2_147_483_647;

export function completeOptions(options: GatewayOptions, methods: readonly DescMethod[]): CompleteGatewayOptions {
  const compression = options.compression ?? true;
  return {
    routes: options.routes,
    protocols: options.protocols ?? allProtocols,
    health: options.health ?? false,
    reflection: options.reflection ?? false,
    requestPathPrefix: options.requestPathPrefix ?? "",
    interceptors: options.interceptors ?? [],
    requestGate: options.requestGate,
    mapError: options.mapError,
    reportError: createErrorReporter(options.onError),
    rules: options.rules ?? [],
    strictTemplates: options.strictTemplates ?? false,
    googleTemplates: options.googleTemplates ?? false,
    unknownQuery: options.unknownQuery ?? "reject",
    boundQuery: options.boundQuery ?? "reject",
    ignoredQuery: options.ignoredQuery ?? [],
    ignoreTrailingSlash: options.ignoreTrailingSlash ?? false,
    fieldMaskFromBody: options.fieldMaskFromBody ?? false,
    readMaxBytes: options.readMaxBytes ?? 4 * 1024 * 1024,
    maxDepth: options.maxDepth ?? 100,
    prototypeKeys: options.prototypeKeys ?? "accept",
    deferred: options.deferred ?? [],
    maxTimeoutMs: options.maxTimeoutMs ?? MAX_TIMER_MS,
    shutdownSignal: options.shutdownSignal,
    streams: {
      heartbeatMs: options.streams?.heartbeatMs ?? 15_000,
      preferred: options.streams?.preferred ?? "ndjson",
      json: options.streams?.json ?? "array",
    },
    compression:
      compression === false
        ? undefined
        : { encodings: contentEncodings, minBytes: 1024, streams: true, ...(compression === true ? {} : compression) },
    registry: options.registry ?? createReachableRegistry(methods),
    jsonOptions: { ...canonicalJson, ...options.jsonOptions },
    errorDomain: options.errorDomain ?? "",
    cors: options.cors,
    errors: options.errors ?? "plain",
  };
}

/** Applies the options with which a service or method was registered. */
export function forRegistration<Options extends CompleteGatewayOptions>(
  options: Options,
  {
    interceptors,
    requestGate,
    readMaxBytes,
    maxTimeoutMs,
    shutdownSignal,
    jsonOptions,
  }: Partial<ConnectRouterOptions> & Pick<GatewayOptions, "requestGate">,
): Options {
  const { ignoreUnknownFields, alwaysEmitImplicit, enumAsInteger, useProtoFieldName } = options.jsonOptions;
  return {
    ...options,
    interceptors: interceptors ?? options.interceptors,
    requestGate: requestGate ?? options.requestGate,
    readMaxBytes: readMaxBytes ?? options.readMaxBytes,
    maxTimeoutMs: maxTimeoutMs ?? options.maxTimeoutMs,
    shutdownSignal: shutdownSignal ?? options.shutdownSignal,
    registry: jsonOptions?.registry ?? options.registry,
    jsonOptions: {
      ...options.jsonOptions,
      ignoreUnknownFields: jsonOptions?.ignoreUnknownFields ?? ignoreUnknownFields,
      alwaysEmitImplicit: jsonOptions?.alwaysEmitImplicit ?? alwaysEmitImplicit,
      enumAsInteger: jsonOptions?.enumAsInteger ?? enumAsInteger,
      useProtoFieldName: jsonOptions?.useProtoFieldName ?? useProtoFieldName,
    },
  };
}
