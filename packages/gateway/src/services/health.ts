import { create } from "@bufbuild/protobuf";
import { Code, ConnectError, type HandlerContext, type ServiceImpl } from "@connectrpc/connect";
import { ErrorInfoSchema } from "../../gen/google/rpc/error_details_pb.ts";
import {
  type Health as HealthService,
  type HealthCheckResponse,
  HealthCheckResponse_ServingStatus as Status,
  HealthCheckResponseSchema,
} from "../../gen/grpc/health/v1/health_pb.ts";
import { PollableIterator } from "../call/pollable-iterator.ts";
import { shutdownError } from "../call/shutdown.ts";
import type { HealthOptions } from "../options/options.ts";

/** The limit that health.proto specifies for List. */
const MAX_LISTED = 100;

/**
 * gRPC's health checking protocol: https://github.com/grpc/grpc/blob/master/doc/health-checking.md. When the signal is aborted, watches
 * report NOT_SERVING and then end with UNAVAILABLE: they must not be ended by other means.
 */
export function createHealthService(
  services: readonly string[],
  options: HealthOptions,
  shutdown: AbortSignal | undefined,
): ServiceImpl<typeof HealthService> {
  const health = new ServerHealth(services, options, shutdown);
  return {
    check({ service }) {
      const status = health.statusOf(health.find(service));
      if (status === Status.SERVICE_UNKNOWN) {
        throw failure(Code.NotFound, "not_found", "this server has no such service; List returns all services");
      }
      return responseOf(status);
    },

    list() {
      const { names } = health;
      if (names.length > MAX_LISTED) {
        throw failure(
          Code.ResourceExhausted,
          "limit_exceeded",
          `there are more than ${MAX_LISTED} services: use Check`,
        );
      }
      return { statuses: Object.fromEntries(names.map((name) => [name, { status: health.statusOf(name) }])) };
    },

    // Retains only the known service name, not the request, for the lifetime of the watch.
    watch: ({ service }, context) => new Watch(health, context, health.find(service)),
  };
}

class ServerHealth {
  readonly names: readonly string[];
  readonly admitWatch: NonNullable<HealthOptions["admitWatch"]>;
  readonly watches = new Set<Watch>();
  readonly #serves: NonNullable<HealthOptions["serves"]>;
  readonly #shutdown: AbortSignal | undefined;

  constructor(
    services: readonly string[],
    { serves = () => true, onChange, admitWatch = () => () => {} }: HealthOptions,
    shutdown: AbortSignal | undefined,
  ) {
    this.names = ["", ...services];
    this.admitWatch = admitWatch;
    this.#serves = serves;
    this.#shutdown = shutdown;
    const changed = (): void => this.watches.forEach((watch) => watch.notify());
    onChange?.(changed);
    shutdown?.addEventListener("abort", changed);
  }

  /** The name of a service as registered, so that a watch retains no request; undefined: there is no such service. */
  find(service: string): string | undefined {
    return this.names.find((name) => name === service);
  }

  statusOf(service: string | undefined): Status {
    if (service === undefined) {
      return Status.SERVICE_UNKNOWN;
    }
    return this.#shutdown?.aborted !== true && this.#serves(service) ? Status.SERVING : Status.NOT_SERVING;
  }

  /** The error that ends the watches; undefined before the shutdown. */
  get shutdownError(): ConnectError | undefined {
    return this.#shutdown?.aborted === true ? shutdownError(this.#shutdown) : undefined;
  }
}

type Reported = IteratorResult<HealthCheckResponse, undefined>;

/** The responses of a watch. A status is read when a response is requested, so that changes that were not read take no memory. */
class Watch extends PollableIterator<HealthCheckResponse> {
  readonly #health: ServerHealth;
  readonly #context: HandlerContext;
  /** undefined: the requested service does not exist. */
  readonly #service: string | undefined;
  #isOpening = false;
  /** Releases what `admitWatch` has reserved; undefined before that. */
  #release: (() => void) | undefined;
  #refusal: { readonly error: unknown } | undefined;
  #last: HealthCheckResponse | undefined;
  #isEnded = false;
  #onReady: (() => void) | undefined;

  constructor(health: ServerHealth, context: HandlerContext, service: string | undefined) {
    super();
    this.#health = health;
    this.#context = context;
    this.#service = service;
  }

  poll(onReady: () => void): Reported | undefined {
    if (this.#refusal !== undefined) {
      throw this.#refusal.error;
    }
    if (this.#isEnded) {
      return { done: true, value: undefined };
    }
    this.#onReady = onReady;
    if (this.#release === undefined) {
      void this.#open();
      return undefined;
    }
    const response = responseOf(this.#health.statusOf(this.#service));
    if (response !== this.#last) {
      this.#last = response;
      return { done: false, value: response };
    }
    const { shutdownError } = this.#health;
    if (shutdownError !== undefined) {
      this.#end();
      throw shutdownError;
    }
    return undefined;
  }

  override return(): Promise<Reported> {
    this.#end();
    this.notify();
    return super.return();
  }

  /** To be called after each change. */
  notify(): void {
    const onReady = this.#onReady;
    this.#onReady = undefined;
    onReady?.();
  }

  /** Listener for the abort event of the call's signal. */
  handleEvent(): void {
    void this.return();
  }

  async #open(): Promise<void> {
    if (this.#isOpening) {
      return;
    }
    this.#isOpening = true;
    const { signal } = this.#context;
    try {
      const release = await this.#health.admitWatch(this.#context);
      if (signal.aborted) {
        // A listener would not notice it.
        release();
        signal.throwIfAborted();
      }
      this.#release = release;
      this.#health.watches.add(this);
      signal.addEventListener("abort", this, { once: true });
    } catch (error) {
      this.#refusal = { error };
    }
    this.notify();
  }

  #end(): void {
    this.#isEnded = true;
    this.#context.signal.removeEventListener("abort", this);
    if (this.#health.watches.delete(this)) {
      this.#release?.();
    }
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

function failure(code: Code, reason: string, message: string): ConnectError {
  return new ConnectError(message, code, undefined, [{ desc: ErrorInfoSchema, value: { reason } }]);
}
