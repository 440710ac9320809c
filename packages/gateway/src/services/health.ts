import { create } from "@bufbuild/protobuf";
import { Code, ConnectError, type HandlerContext, type ServiceImpl } from "@connectrpc/connect";
import { ErrorInfoSchema } from "../../gen/google/rpc/error_details_pb.ts";
import {
  type Health as HealthService,
  type HealthCheckResponse,
  HealthCheckResponse_ServingStatus as Status,
  HealthCheckResponseSchema,
} from "../../gen/grpc/health/v1/health_pb.ts";

/** What the health service reports. */
export type HealthSource = {
  /** Whether a service can take calls; "" is the server as a whole. undefined: there is no such service. */
  serves(service: string): boolean | undefined;
  /** The names that `serves` accepts, including "". */
  readonly services: readonly string[];
  /**
   * Yields the result of `read`, and after changes each different one; changes that were not read yet are coalesced, as `HealthWatch`
   * does. `return` ends the watch, also while `next` is pending. `onEnd` is called once.
   */
  watch<T extends object>(read: () => T, onEnd: () => void): AsyncIterator<T, undefined>;
};

/** Admits a watch, or throws. Returns what to call when the watch ends. */
export type AdmitWatch = (context: HandlerContext) => (() => void) | Promise<() => void>;

/** The limit that health.proto specifies for List. */
const MAX_LISTED = 100;

/** gRPC's health checking protocol: https://github.com/grpc/grpc/blob/master/doc/health-checking.md. */
export function createHealthService(
  source: HealthSource,
  admit: AdmitWatch = () => () => {},
): ServiceImpl<typeof HealthService> {
  return {
    check({ service }) {
      const status = statusOf(source, service);
      if (status === Status.SERVICE_UNKNOWN) {
        throw failure(Code.NotFound, "not_found", "this server has no such service; List returns all services");
      }
      return responseOf(status);
    },

    list() {
      const { services } = source;
      if (services.length > MAX_LISTED) {
        throw failure(
          Code.ResourceExhausted,
          "limit_exceeded",
          `there are more than ${MAX_LISTED} services: use Check`,
        );
      }
      return { statuses: Object.fromEntries(services.map((name) => [name, { status: statusOf(source, name) }])) };
    },

    watch: ({ service }, context) =>
      // Retains only the known service name, not the request, for the lifetime of the watch.
      new WatchResponses(
        source,
        admit,
        context,
        source.services.find((name) => name === service),
      ),
  };
}

/** A health source that serves everything until the signal is aborted. */
export function createShutdownHealth(services: readonly string[], shutdown: AbortSignal | undefined): HealthSource {
  return {
    services: ["", ...services],
    serves: (service) => (service === "" || services.includes(service) ? shutdown?.aborted !== true : undefined),
    // The gateway ends the open streams at the shutdown, so that nothing changes during a watch.
    watch: (read, onEnd) => new HealthWatch(read, onEnd),
  };
}

/** An open watch. Values are read when they are requested, so that unread changes take no memory. */
export class HealthWatch<T> implements AsyncIterator<T, undefined> {
  readonly #read: () => T;
  readonly #onEnd: () => void;
  #last: T | undefined;
  #closeError: unknown;
  #isEnded = false;
  #pending: PromiseWithResolvers<IteratorResult<T, undefined>> | undefined;

  constructor(read: () => T, onEnd: () => void) {
    this.#read = read;
    this.#onEnd = onEnd;
  }

  /** Settles the pending `next`, if there is something to report. To be called after each change. */
  settle(): void {
    const pending = this.#pending;
    if (pending === undefined) {
      return;
    }
    const value = this.#isEnded ? this.#last : this.#read();
    if (value !== this.#last) {
      this.#last = value;
      pending.resolve({ done: false, value: value as T });
    } else if (this.#isEnded) {
      pending.resolve({ done: true, value: undefined });
    } else if (this.#closeError !== undefined) {
      this.#isEnded = true;
      pending.reject(this.#closeError);
    } else {
      return;
    }
    this.#pending = undefined;
  }

  /** Ends it with an error, after the last change. */
  close(error: Error): void {
    this.#closeError = error;
    this.#onEnd();
    this.settle();
  }

  next(): Promise<IteratorResult<T, undefined>> {
    this.#pending = Promise.withResolvers();
    const { promise } = this.#pending;
    this.settle();
    return promise;
  }

  return(): Promise<IteratorResult<T, undefined>> {
    this.#isEnded = true;
    this.#onEnd();
    this.settle();
    return Promise.resolve({ done: true, value: undefined });
  }
}

/** Not a generator, which could not be ended while it waits for a change. */
class WatchResponses implements AsyncIterableIterator<HealthCheckResponse, undefined> {
  readonly #source: HealthSource;
  readonly #admit: AdmitWatch;
  readonly #context: HandlerContext;
  /** undefined: the requested service does not exist. */
  readonly #service: string | undefined;
  #responses: AsyncIterator<HealthCheckResponse, undefined> | undefined;

  constructor(source: HealthSource, admit: AdmitWatch, context: HandlerContext, service: string | undefined) {
    this.#source = source;
    this.#admit = admit;
    this.#context = context;
    this.#service = service;
  }

  next(): Promise<IteratorResult<HealthCheckResponse, undefined>> {
    return this.#responses?.next() ?? this.#open();
  }

  async return(): Promise<IteratorResult<HealthCheckResponse, undefined>> {
    this.#context.signal.removeEventListener("abort", this);
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
    const { signal } = this.#context;
    const release = await this.#admit(this.#context);
    if (signal.aborted) {
      // A listener would not notice it.
      release();
      signal.throwIfAborted();
    }
    signal.addEventListener("abort", this, { once: true });
    this.#responses = this.#source.watch(() => responseOf(statusOf(this.#source, this.#service)), release);
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

function statusOf(source: HealthSource, service: string | undefined): Status {
  const serves = service === undefined ? undefined : source.serves(service);
  if (serves === undefined) {
    return Status.SERVICE_UNKNOWN;
  }
  return serves ? Status.SERVING : Status.NOT_SERVING;
}

function failure(code: Code, reason: string, message: string): ConnectError {
  return new ConnectError(message, code, undefined, [{ desc: ErrorInfoSchema, value: { reason } }]);
}
