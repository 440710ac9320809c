import { Health } from "../../gen/grpc/health/v1/health_pb.ts";
import { collectImplementations, type Implementation, type StreamImplementation } from "../call/implementations.ts";
import type { GatewayOptions } from "../options/options.ts";
import { createHealthService } from "./health.ts";
import { reflectionServices, registerReflection } from "./reflection.ts";

type Implementations = readonly (Implementation | StreamImplementation)[];

/** Limit of a request of these services, which contains a name at most. */
const MAX_NAME_BYTES = 4 * 1024;

/** The services of gRPC that the options enable, for servers that have registered these RPCs. */
export function standardServices(
  {
    health = false,
    reflection = false,
    shutdownSignal,
    readMaxBytes = MAX_NAME_BYTES,
  }: Pick<GatewayOptions, "health" | "reflection" | "shutdownSignal" | "readMaxBytes">,
  registered: Implementations,
): Implementations {
  const services = [
    ...new Set(registered.map(({ method }) => method.parent)),
    ...(health === false ? [] : [Health]),
    ...(reflection ? reflectionServices : []),
  ];
  const limits = { readMaxBytes: Math.min(MAX_NAME_BYTES, readMaxBytes) };
  return collectImplementations((router) => {
    if (health !== false) {
      const names = services.map(({ typeName }) => typeName);
      const service = createHealthService(names, health === true ? {} : health, shutdownSignal);
      // The watches end themselves at the shutdown, after their last status.
      router.service(Health, service, { ...limits, shutdownSignal: new AbortController().signal });
    }
    if (reflection) {
      registerReflection(router, services, limits);
    }
  });
}
