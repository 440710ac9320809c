import type { DescMethod } from "@bufbuild/protobuf";
import type { ConnectRouter, Interceptor } from "@connectrpc/connect";
import type { Logger } from "pino";
import type { PermissionCheck } from "../auth/gate.ts";
import type { Metrics } from "../telemetry/metrics.ts";
import type { Observer } from "../telemetry/observer.ts";
import type { Tracing } from "../telemetry/trace.ts";
import type { Gate } from "./pipeline/errors.ts";
import type { BrowserSafetyOptions } from "./pipeline/guards/browser-safety.ts";
import type { CorsOptions } from "./pipeline/guards/cors.ts";
import type { SheddingOptions } from "./pipeline/guards/load-shedding.ts";
import type { ReadinessOptions } from "./endpoints/health.ts";
import type { ListenerLimits, ListenerOptions } from "./http/listener-options.ts";
import type { TlsOptions } from "./http/tls.ts";
import type { IdentitySource } from "./pipeline/client.ts";
import type { RuntimeProcess } from "./http/runtime-sockets.ts";

/** The default of `limits.memoryWaitMs`. */
export const defaultMemoryWaitMs = 10_000;

export type ServerOptions = ReadinessOptions & {
  host: string;
  /** 0 takes any free port. */
  port: number;
  /** The path of a Unix socket that serves the same, with limits of its own. Absent: none. */
  socket?: UnixSocketOptions | undefined;
  log: Logger;
  /** Registers the RPCs; called more than once. */
  routes: (router: ConnectRouter) => void;
  /** Methods whose request messages are decoded on first access. Defaults to none. */
  deferred?: readonly DescMethod[];
  /** Throws to reject a call; runs before its body is read. */
  gate: Gate;
  /**
   * The methods for which the gate rejects callers without an identity by `Peer.overloaded`, so that others can be served while the
   * service is overloaded. Defaults to none.
   */
  identified?: ReadonlySet<DescMethod>;
  /** The process of the flow runtime. Absent: there is none, or its connections are counted like all others. */
  runtimeProcess?: RuntimeProcess | undefined;
  /** Called when flows of that process exceed their share of connections and calls. */
  onRuntimeAbuse?: ((reason: string) => void) | undefined;
  /** Outermost first. */
  interceptors: Interceptor[];
  /** Serves the API description at /openapi.json and /docs. Defaults to false. */
  docs?: boolean;
  /** Serves gRPC server reflection. Defaults to false. */
  reflection?: boolean;
  limits: {
    /** Size of the largest request message. */
    bodyBytes: number;
    /** Longest deadline that a call can set. Defaults to the longest delay of a timer. */
    deadlineMs?: number;
    /** Memory that large request bodies may take, in MiB. Defaults to no limit. */
    memoryMb?: number;
    /** How long a body waits for that memory. Defaults to 10 s. */
    memoryWaitMs?: number;
  } & Partial<SheddingOptions & ListenerLimits>;
  /** Receives measurements. Defaults to none. */
  observer?: Observer | undefined;
  /** Absent: requests are not traced. */
  tracing?: Pick<Tracing, "root" | "isOn"> | undefined;
  /** Serves `/metrics` to callers that `checkPermission` allows. Absent: not on this port. */
  metrics?: { readonly metrics: Metrics; readonly checkPermission: PermissionCheck } | undefined;
  /** Protection against requests from foreign web pages. Absent: none, as every call needs a token. */
  browserSafety?: BrowserSafetyOptions | undefined;
  /** Web pages of other origins that may call. Absent: none, and no CORS header is sent. */
  cors?: CorsOptions | undefined;
  listener?: Partial<ListenerOptions>;
  /** Absent: plaintext. */
  tls?: TlsOptions | undefined;
  /** Addresses and subnets whose X-Forwarded-For, X-Forwarded-Proto and X-Forwarded-Host are used. */
  trustedProxies?: readonly string[];
  /** How workloads are identified. Absent: they are not. */
  identity?: IdentitySource | undefined;
};

type UnixSocketOptions = {
  readonly path: string;
  /** Otherwise the server starts without it if it can't be created, and logs why. */
  readonly isRequired: boolean;
};
