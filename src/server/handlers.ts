import type { DescMethod, DescService } from "@bufbuild/protobuf";
import { type ConnectRouter, createConnectRouter } from "@connectrpc/connect";
import { createGateway } from "@flowgate/gateway";
import { createHealthService, reflectionServices } from "@flowgate/gateway/server";
import { AuthService } from "../../gen/flowgate/v1/auth_pb.ts";
import { TokensService } from "../../gen/flowgate/v1/tokens_pb.ts";
import { Health as HealthService } from "@flowgate/gateway/gen/grpc/health/v1/health_pb.js";
import { activateTrace } from "../telemetry/trace.ts";
import { FlowgateError } from "../errors.ts";
import { createDocs } from "./docs.ts";
import { toConnectError } from "./errors/connect-error.ts";
import { toFailure } from "./errors/failures.ts";
import { gatewayOptions } from "./gateway-options.ts";
import { createHealth } from "./health.ts";
import { createHealthEndpoints } from "./health-endpoints.ts";
import type { ListenerOptions } from "./listener/options.ts";
import { createMetricsEndpoint } from "./metrics-endpoint.ts";
import type { ServerOptions } from "./options.ts";
import { createRouter } from "./pipeline/router.ts";
import { createWatchLimits } from "./watch-limits.ts";

/** Exempt from load shedding: an operator must be able to check health and to revoke tokens under load. */
const exempt: ReadonlySet<DescMethod> = new Set([
  ...HealthService.methods,
  AuthService.method.revokeToken,
  TokensService.method.deleteToken,
  TokensService.method.revokeTokens,
]);

/** The longest delay of a timer; with a longer one, Node fires it at once. */
const maxTimerMs = 2_147_483_647;

/** Limit of a health request, which contains a name at most. */
const maxNameBytes = 4 * 1024;

/** The RPCs over every protocol, the REST API and the other endpoints. */
export function createHandlers(
  { log, deferred = [], limits, ...options }: ServerOptions,
  isProxy: ListenerOptions["isProxy"],
) {
  const { bodyBytes, deadlineMs = maxTimerMs } = limits;
  const closing = new AbortController();
  const services = [
    ...servicesOf(options.routes),
    HealthService,
    ...(options.reflection === true ? reflectionServices : []),
  ];
  const health = createHealth(
    options,
    services.map(({ typeName }) => typeName),
  );
  const routes = (router: ConnectRouter): void => {
    options.routes(router);
    router.service(HealthService, createHealthService(health, createWatchLimits(health, isProxy)), {
      readMaxBytes: Math.min(maxNameBytes, bodyBytes),
    });
  };

  const gateway = createGateway({
    ...gatewayOptions,
    routes,
    reflection: options.reflection ?? false,
    requestGate: options.gate,
    interceptors: [...(options.tracing?.isOn === true ? [activateTrace] : []), ...options.interceptors],
    shutdownSignal: closing.signal,
    mapError: (error, context) => toFailure(error, log, context),
    readMaxBytes: bodyBytes,
    deferred,
    maxTimeoutMs: deadlineMs,
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
    exempt,
  });
  const endStreams = (): void => {
    health.close();
    closing.abort(toConnectError(new FlowgateError("unavailable", "the service is closing")));
  };
  return { findRoute, health, methods: gateway.methods, endStreams };
}

function servicesOf(routes: ServerOptions["routes"]): DescService[] {
  const router = createConnectRouter();
  routes(router);
  return [...new Set(router.handlers.map(({ service }) => service))];
}
