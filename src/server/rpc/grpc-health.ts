import { create } from "@bufbuild/protobuf";
import type { ServiceImpl } from "@connectrpc/connect";
import {
  type Health as HealthService,
  type HealthCheckResponse,
  HealthCheckResponse_ServingStatus as Status,
  HealthCheckResponseSchema,
} from "../../../gen/grpc/health/v1/health_pb.ts";
import { peerKey } from "../../auth/principal.ts";
import { FlowgateError } from "../../errors.ts";
import type { Health } from "../health.ts";
import type { ClientCounter } from "../listener/client-counter.ts";

/** Limited, since watches have no time limit and need no token. */
const maxWatches = 1_000;
/** Limit per IPv4 address or IPv6 /64. */
export const maxWatchesPerClient = 100;
/** The limit that health.proto specifies for List. */
const maxListed = 100;

/**
 * gRPC's health checking protocol: https://github.com/grpc/grpc/blob/master/doc/health-checking.md. `watchers` counts
 * the watches of each client.
 */
export function healthService(health: Health, watchers: ClientCounter): ServiceImpl<typeof HealthService> {
  return {
    check({ service }) {
      const status = statusOf(health, service);
      if (status === Status.SERVICE_UNKNOWN) {
        throw new FlowgateError("not_found", "this server has no such service; List returns all services");
      }
      return responseOf(status);
    },

    list() {
      const { services } = health;
      if (services.length > maxListed) {
        throw new FlowgateError("limit_exceeded", `there are more than ${maxListed} services: use Check`);
      }
      return { statuses: Object.fromEntries(services.map((name) => [name, { status: statusOf(health, name) }])) };
    },

    watch: ({ service }, { signal, values }) =>
      // Retains only the known service name, not the request, for the lifetime of the watch.
      watch(health, watchers, {
        service: health.services.find((name) => name === service),
        address: values.get(peerKey).address,
        signal,
      }),
  };
}

type Watch = {
  /** undefined: the requested service does not exist. */
  readonly service: string | undefined;
  readonly address: string;
  readonly signal: AbortSignal;
};

async function* watch(
  health: Health,
  watchers: ClientCounter,
  { service, address, signal }: Watch,
): AsyncGenerator<HealthCheckResponse> {
  const release = health.subscriptions() < maxWatches ? watchers.admit(address) : undefined;
  if (release === undefined) {
    throw new FlowgateError("limit_exceeded", "too many open watches: use Check");
  }
  try {
    const changes = health.changes(signal);
    let lastSent = statusOf(health, service);
    yield responseOf(lastSent);
    for await (const _ of changes) {
      const status = statusOf(health, service);
      if (status !== lastSent) {
        lastSent = status;
        yield responseOf(status);
      }
    }
  } finally {
    release();
  }
  throw new FlowgateError("unavailable", "the service is closing");
}

const responses = new Map<Status, HealthCheckResponse>();

/** Frozen, so that it is encoded only once for all watches. */
function responseOf(status: Status): HealthCheckResponse {
  let response = responses.get(status);
  if (response === undefined) {
    response = Object.freeze(create(HealthCheckResponseSchema, { status }));
    responses.set(status, response);
  }
  return response;
}

function statusOf(health: Health, service: string | undefined): Status {
  const serves = service === undefined ? undefined : health.serves(service);
  if (serves === undefined) {
    return Status.SERVICE_UNKNOWN;
  }
  return serves ? Status.SERVING : Status.NOT_SERVING;
}
