import { type DescMethod, getOption } from "@bufbuild/protobuf";
import type { ConnectRouter, Interceptor } from "@connectrpc/connect";
import { createGateway } from "@flowgate/gateway";
import { access } from "../../gen/flowgate/v1/access_pb.ts";
import { Health as HealthService } from "@flowgate/gateway/gen/grpc/health/v1/health_pb.js";
import type { Logger } from "pino";
import type { PermissionCheck } from "../auth/gate.ts";
import { FlowgateError } from "@flowgate/flows/errors";
import type { Metrics } from "../telemetry/metrics.ts";
import { type Tracing, activateTrace } from "../telemetry/trace.ts";
import { createErrorLog, type Gate, toConnectError, toFailure } from "./pipeline/errors.ts";
import { gatewayOptions } from "./pipeline/gateway-options.ts";
import { ProcessHealth, createHealthEndpoints, limitHealthWatches, type ReadinessOptions } from "./endpoints/health.ts";
import type { ListenerOptions } from "./http/listener-options.ts";
import { createMetricsEndpoint } from "./endpoints/metrics.ts";
import { createRouter } from "./pipeline/router.ts";
import type { PageOptions } from "./pages/app.ts";
import { createPages } from "./pages/pages.ts";

export type HandlerOptions = ReadinessOptions & {
  readonly log: Logger;
  /** Registers the RPCs; called more than once. */
  readonly routes: (router: ConnectRouter) => void;
  /** Methods whose request messages are decoded on first access. Defaults to none. */
  readonly deferred?: readonly DescMethod[];
  /** Throws to reject a call; runs before its body is read. */
  readonly gate: Gate;
  /** Outermost first. */
  readonly interceptors: Interceptor[];
  readonly limits: {
    /** Size of the largest request message. */
    readonly bodyBytes: number;
    /** Longest deadline that a call can set. Defaults to the longest delay of a timer. */
    readonly deadlineMs?: number;
  };
  /** The folder of the built web console, which is served at /console. Absent: it is not. */
  readonly console?: string | undefined;
  /** Serves the API description at /openapi.json and /docs. Defaults to false. */
  readonly docs?: boolean;
  /** What lets browsers sign in. Absent: they have no sessions. */
  readonly signIn?: PageOptions["signIn"];
  /** Serves gRPC server reflection. Defaults to false. */
  readonly reflection?: boolean;
  /** Serves `/metrics` to callers that `checkPermission` allows. Absent: not on this port. */
  readonly metrics?: { readonly metrics: Metrics; readonly checkPermission: PermissionCheck } | undefined;
  /** Absent: requests are not traced. */
  readonly tracing?: Pick<Tracing, "root" | "isOn"> | undefined;
};

/** The RPCs over every protocol, the REST API and the other endpoints. */
export function createHandlers(
  { log, deferred = [], limits: { bodyBytes, deadlineMs }, ...options }: HandlerOptions,
  isProxy: ListenerOptions["isProxy"],
) {
  const closing = new AbortController();
  const health = new ProcessHealth(options);
  const gateway = createGateway({
    ...gatewayOptions,
    routes: options.routes,
    health: {
      serves: (service) => health.serves(service),
      onChange: (changed) => health.onChange(changed),
      admitWatch: limitHealthWatches(isProxy),
    },
    reflection: options.reflection ?? false,
    requestGate: options.gate,
    interceptors: [...(options.tracing?.isOn === true ? [activateTrace] : []), ...options.interceptors],
    shutdownSignal: closing.signal,
    mapError: (error, context) => toFailure(error, log, context),
    onError: createErrorLog(log),
    readMaxBytes: bodyBytes,
    deferred,
    ...(deadlineMs !== undefined && { maxTimeoutMs: deadlineMs }),
  });

  const findRoute = createRouter({
    endpoints: new Map([
      ...createHealthEndpoints(health),
      ...createPages({ console: options.console, docs: options.docs ?? false, signIn: options.signIn, log }),
      ...(options.metrics === undefined
        ? []
        : [createMetricsEndpoint(options.metrics.metrics, options.metrics.checkPermission)]),
    ]),
    gateway,
    exempt: new Set([
      ...HealthService.methods,
      ...gateway.methods.filter((method) => getOption(method, access).exemptFromLoadShedding),
    ]),
  });
  const endStreams = (): void => {
    // Created for the first stream that it ends: Node loads `Headers` for a ConnectError, with all of fetch, which takes 70 ms of CPU time.
    let reason: Error | undefined;
    Object.defineProperty(closing.signal, "reason", {
      get: () => (reason ??= toConnectError(new FlowgateError("unavailable", "the service is closing"))),
    });
    closing.abort();
  };
  return { findRoute, health, methods: gateway.methods, endStreams };
}
