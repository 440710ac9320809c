import { create } from "@bufbuild/protobuf";
import type { ServiceImpl } from "@connectrpc/connect";
import {
  type Health as HealthService,
  type HealthCheckResponse,
  HealthCheckResponse_ServingStatus as Status,
  HealthCheckResponseSchema,
} from "../../../gen/grpc/health/v1/health_pb.ts";
import type { ClientKind } from "../../auth/client-key.ts";
import { type Peer, peerKey } from "../../auth/principal.ts";
import { FlowgateError } from "../../errors.ts";
import type { Health } from "../health.ts";
import { type ClientCounter, createClientCounter } from "../listener/client-counter.ts";
import type { ListenerOptions } from "../listener/options.ts";

/** Limited, since watches have no time limit and need no token. */
const maxWatches = 1_000;
/** Limit per IPv4 address or IPv6 /64, and on the Unix socket. */
const maxWatchesPerClient = 100;
/** Limit of the flow runtime, a tenth of that of one client. */
const maxRuntimeWatches = 10;
/** The limit that health.proto specifies for List. */
const maxListed = 100;

type WatchCounters = Readonly<Record<ClientKind, ClientCounter>>;

/** Counts the watches of each client. Those of flows are counted apart from those of operators with the same address. */
export function createWatchCounters(isProxy: ListenerOptions["isProxy"]): WatchCounters {
  return {
    network: createClientCounter(maxWatchesPerClient, isProxy),
    socket: createClientCounter(maxWatchesPerClient, () => false),
    runtime: createClientCounter(maxRuntimeWatches, () => false),
  };
}

/** gRPC's health checking protocol: https://github.com/grpc/grpc/blob/master/doc/health-checking.md. */
export function healthService(health: Health, counters: WatchCounters): ServiceImpl<typeof HealthService> {
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
      new Watch(
        health,
        counters,
        values.get(peerKey),
        signal,
        health.services.find((name) => name === service),
      ),
  };
}

/** Not a generator, which could not be ended while it waits for a change. */
class Watch implements AsyncIterableIterator<HealthCheckResponse, undefined> {
  readonly #health: Health;
  readonly #counters: WatchCounters;
  readonly #peer: Peer;
  readonly #signal: AbortSignal;
  /** undefined: the requested service does not exist. */
  readonly #service: string | undefined;
  #responses: AsyncIterator<HealthCheckResponse, undefined> | undefined;

  constructor(health: Health, counters: WatchCounters, peer: Peer, signal: AbortSignal, service: string | undefined) {
    this.#health = health;
    this.#counters = counters;
    this.#peer = peer;
    this.#signal = signal;
    this.#service = service;
  }

  next(): Promise<IteratorResult<HealthCheckResponse, undefined>> {
    return this.#responses?.next() ?? this.#open();
  }

  async return(): Promise<IteratorResult<HealthCheckResponse, undefined>> {
    this.#signal.removeEventListener("abort", this);
    await this.#responses?.return?.();
    return { done: true, value: undefined };
  }

  /** Listener for the abort event of the signal. */
  handleEvent(): void {
    void this.return();
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  /** Returns the first response. */
  async #open(): Promise<IteratorResult<HealthCheckResponse, undefined>> {
    const health = this.#health;
    const kind = (await this.#peer.clientKind?.()) ?? "network";
    // A listener would not notice it.
    this.#signal.throwIfAborted();
    this.#signal.addEventListener("abort", this, { once: true });
    const isFull = kind === "network" && health.watches() >= maxWatches;
    const release = isFull ? undefined : this.#counters[kind].admit(kind === "network" ? this.#peer.address : kind);
    if (release === undefined) {
      throw new FlowgateError("limit_exceeded", "too many open watches: use Check");
    }
    this.#responses = health.watch(() => responseOf(statusOf(health, this.#service)), release);
    return this.#responses.next();
  }
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
