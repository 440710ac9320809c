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

/** Each is open for as long as its client likes, and needs no token. */
const maxWatches = 1_000;
/** Of one address, or one /64 of IPv6. */
export const maxWatchesPerSource = 100;
/** As the List of health.proto has it. */
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
        throw new FlowgateError("not_found", "this server has no such service; List tells which there are");
      }
      return answerOf(status);
    },

    list() {
      const { services } = health;
      if (services.length > maxListed) {
        throw new FlowgateError("limit_exceeded", `there are more than ${maxListed} services: ask with Check`);
      }
      return { statuses: Object.fromEntries(services.map((name) => [name, { status: statusOf(health, name) }])) };
    },

    watch: ({ service }, { signal, values }) =>
      // A watch may last: it keeps nothing of what its client sent.
      watch(health, watchers, {
        service: health.services.find((name) => name === service),
        address: values.get(peerKey).address,
        signal,
      }),
  };
}

type Watch = {
  /** undefined: there is none of the name that was asked for, and there will be none. */
  readonly service: string | undefined;
  readonly address: string;
  readonly signal: AbortSignal;
};

async function* watch(
  health: Health,
  watchers: ClientCounter,
  { service, address, signal }: Watch,
): AsyncGenerator<HealthCheckResponse> {
  const cancel = health.followers() < maxWatches ? watchers.admit(address) : undefined;
  if (cancel === undefined) {
    throw new FlowgateError("limit_exceeded", "there are too many watches already: ask with Check");
  }
  try {
    const changes = health.changes(signal);
    let told = statusOf(health, service);
    yield answerOf(told);
    for await (const _ of changes) {
      const status = statusOf(health, service);
      if (status !== told) {
        told = status;
        yield answerOf(status);
      }
    }
  } finally {
    cancel();
  }
  throw new FlowgateError("unavailable", "the service is closing");
}

const answers = new Map<Status, HealthCheckResponse>();

/** Frozen, so that one encoding serves all watches. */
function answerOf(status: Status): HealthCheckResponse {
  let answer = answers.get(status);
  if (answer === undefined) {
    answer = Object.freeze(create(HealthCheckResponseSchema, { status }));
    answers.set(status, answer);
  }
  return answer;
}

function statusOf(health: Health, service: string | undefined): Status {
  const serves = service === undefined ? undefined : health.serves(service);
  if (serves === undefined) {
    return Status.SERVICE_UNKNOWN;
  }
  return serves ? Status.SERVING : Status.NOT_SERVING;
}
