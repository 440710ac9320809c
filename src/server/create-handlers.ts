import { getOption } from "@bufbuild/protobuf";
import { createGateway } from "@flowgate/gateway";
import { access } from "../../gen/flowgate/v1/access_pb.ts";
import { Health as HealthService } from "@flowgate/gateway/gen/grpc/health/v1/health_pb.js";
import { FlowgateError } from "@flowgate/flows/errors";
import { activateTrace } from "../telemetry/trace.ts";
import { createErrorLog, toConnectError, toFailure } from "./pipeline/errors.ts";
import { gatewayOptions } from "./pipeline/gateway-options.ts";
import { ProcessHealth, createHealthEndpoints, limitHealthWatches, type ReadinessOptions } from "./endpoints/health.ts";
import type { ListenerOptions } from "./http/listener-options.ts";
import { createMetricsEndpoint } from "./endpoints/metrics.ts";
import { createRouter } from "./pipeline/router.ts";
import { createPages } from "./pages/pages.ts";
import type { ApiOptions, MeasurementOptions, MessageLimits, PagesOptions } from "./server-options.ts";

type HandlerOptions = ApiOptions &
  PagesOptions &
  Pick<MeasurementOptions, "log" | "tracing" | "metrics"> &
  ReadinessOptions & { readonly limits: MessageLimits };

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
