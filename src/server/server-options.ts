import type { DescMethod } from "@bufbuild/protobuf";
import type { ConnectRouter, Interceptor } from "@connectrpc/connect";
import type { Logger } from "pino";
import type { PermissionCheck } from "../auth/gate.ts";
import type { Metrics } from "../telemetry/metrics.ts";
import type { Observer } from "../telemetry/observer.ts";
import type { Tracing } from "../telemetry/trace.ts";
import type { ReadinessOptions } from "./endpoints/health.ts";
import type { ListenerLimits, ListenerOptions } from "./http/listener-options.ts";
import type { TlsOptions } from "./http/tls.ts";
import type { MemoryBudget } from "./memory/memory-budget.ts";
import type { PageOptions } from "./pages/app.ts";
import type { IdentitySource } from "./pipeline/client.ts";
import type { Gate } from "./pipeline/errors.ts";
import type { BrowserSafetyOptions } from "./pipeline/guards/browser-safety.ts";
import type { CorsOptions } from "./pipeline/guards/cors.ts";
import type { SheddingOptions } from "./pipeline/guards/load-shedding.ts";

export type ServerOptions = ListeningOptions &
  ApiOptions &
  PagesOptions &
  ClientOptions &
  MeasurementOptions &
  ReadinessOptions;

/** The server's addresses, and the limits of connections and requests. */
export type ListeningOptions = {
  readonly host: string;
  /** 0 takes any free port. */
  readonly port: number;
  /** A Unix socket that serves the same, with limits of its own. Absent: none. */
  readonly socket?: UnixSocketOptions | undefined;
  readonly limits: Partial<ListenerLimits> & Partial<SheddingOptions> & MemoryLimits & MessageLimits;
  /** The budget that listeners share. Absent: one by `limits`. */
  readonly memory?: MemoryBudget | undefined;
  readonly listener?: Partial<ListenerOptions>;
  /** Absent: plaintext. */
  readonly tls?: TlsOptions | undefined;
};

type UnixSocketOptions = {
  readonly path: string;
  /** Otherwise the server starts without it if it can't be created, and logs why. */
  readonly isRequired: boolean;
};

/** The memory that large request bodies may take, in MiB, and how long a body waits for it. Absent: no limit. */
type MemoryLimits = { readonly memoryMb?: undefined } | { readonly memoryMb: number; readonly memoryWaitMs: number };

export type MessageLimits = {
  /** Size of the largest request message. */
  readonly bodyBytes: number;
  /** Longest deadline that a call can set. Defaults to the longest delay of a timer. */
  readonly deadlineMs?: number;
};

/** The RPCs, and their callers. */
export type ApiOptions = {
  /** Registers the RPCs; called more than once. */
  readonly routes: (router: ConnectRouter) => void;
  /** Throws to reject a call; runs before its body is read. */
  readonly gate: Gate;
  /**
   * The methods for which the gate rejects callers without an identity by `Peer.overloaded`, so that others can be served while the
   * service is overloaded. Defaults to none.
   */
  readonly identified?: ReadonlySet<DescMethod>;
  /** Outermost first. */
  readonly interceptors: Interceptor[];
  /** Methods whose request messages are decoded on first access. Defaults to none. */
  readonly deferred?: readonly DescMethod[];
  /** Serves gRPC server reflection. Defaults to false. */
  readonly reflection?: boolean;
};

/** The pages for browsers. */
export type PagesOptions = {
  /** The folder of the built web console, which is served at /console. Absent: it is not. */
  readonly console?: string | undefined;
  /** Serves the API description at /openapi.json and /docs. Defaults to false. */
  readonly docs?: boolean;
  /** The sign-in of browsers. Absent: they have no sessions. */
  readonly signIn?: PageOptions["signIn"];
};

/** The identification of clients, and the web pages that may call. */
export type ClientOptions = {
  /** Addresses and subnets whose X-Forwarded-For, X-Forwarded-Proto and X-Forwarded-Host are used. */
  readonly trustedProxies?: readonly string[];
  /** The identification of workloads. Absent: none. */
  readonly identity?: IdentitySource | undefined;
  /** Protection against requests from foreign web pages. Absent: none, as every call needs a token. */
  readonly browserSafety?: BrowserSafetyOptions | undefined;
  /** Web pages of other origins that may call. Absent: none, and no CORS header is sent. */
  readonly cors?: CorsOptions | undefined;
};

/** The log, metrics and traces. */
export type MeasurementOptions = {
  readonly log: Logger;
  /** Receives measurements. Defaults to none. */
  readonly observer?: Observer | undefined;
  /** Absent: requests are not traced. */
  readonly tracing?: Pick<Tracing, "root" | "isOn"> | undefined;
  /** Serves `/metrics` to callers that `checkPermission` allows. Absent: not on this port. */
  readonly metrics?: { readonly metrics: Metrics; readonly checkPermission: PermissionCheck } | undefined;
};
