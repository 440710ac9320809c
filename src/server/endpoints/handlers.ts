import { getOption } from "@bufbuild/protobuf";
import { createGateway } from "@flowgate/gateway";
import { access } from "../../../gen/flowgate/v1/access_pb.ts";
import { Health as HealthService } from "@flowgate/gateway/gen/grpc/health/v1/health_pb.js";
import { activateTrace } from "../../telemetry/trace.ts";
import { FlowgateError } from "../../errors.ts";
import { createDocs } from "./docs.ts";
import { toConnectError, toFailure } from "../pipeline/errors.ts";
import { gatewayOptions } from "../pipeline/gateway-options.ts";
import { createHealth, createHealthEndpoints, createWatchLimits } from "./health.ts";
import type { ListenerOptions } from "../http/listener-options.ts";
import { createMetricsEndpoint } from "./metrics.ts";
import type { ServerOptions } from "../options.ts";
import { createRouter } from "../pipeline/router.ts";

/** The RPCs over every protocol, the REST API and the other endpoints. */
export function createHandlers(
  { log, deferred = [], limits: { bodyBytes, deadlineMs }, ...options }: ServerOptions,
  isProxy: ListenerOptions["isProxy"],
) {
  const closing = new AbortController();
  const health = createHealth(options);
  const gateway = createGateway({
    ...gatewayOptions,
    routes: options.routes,
    health: { serves: health.serves, onChange: health.onChange, admitWatch: createWatchLimits(isProxy) },
    reflection: options.reflection ?? false,
    requestGate: options.gate,
    interceptors: [...(options.tracing?.isOn === true ? [activateTrace] : []), ...options.interceptors],
    shutdownSignal: closing.signal,
    mapError: (error, context) => toFailure(error, log, context),
    readMaxBytes: bodyBytes,
    deferred,
    ...(deadlineMs !== undefined && { maxTimeoutMs: deadlineMs }),
  });

  const findRoute = createRouter({
    endpoints: new Map([
      ...createHealthEndpoints(health),
      ...(options.docs === true ? createDocs() : []),
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
  const endStreams = (): void =>
    closing.abort(toConnectError(new FlowgateError("unavailable", "the service is closing")));
  return { findRoute, health, methods: gateway.methods, endStreams };
}
