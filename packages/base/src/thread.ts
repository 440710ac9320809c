import { getHeapStatistics } from "node:v8";
import { type MessagePort, parentPort, type ResourceLimits, type Transferable, Worker } from "node:worker_threads";
import { FlowgateError, type Reason } from "@flowgate/flows/errors";

/** A worker thread that is started on demand and stopped when it has been idle for a while. */
export interface Thread<Request, Reply> extends AsyncDisposable {
  /**
   * Calls the handler in the thread. If the handler throws, rejects with an Error of the same message and own properties,
   * but without its class, unless that is FlowgateError. Rejects with `unavailable` if the thread exits before it has replied; but the call that took more
   * memory than `limits` allow rejects with the error of `outOfMemory`.
   *
   * If the signal is aborted before the reply, the thread is terminated with all calls in it, and the call rejects with the signal's
   * reason as soon as the thread has ended. The next call starts a new one.
   */
  call(request: Request, transfer?: readonly Transferable[], signal?: AbortSignal): Promise<Reply>;
}

export type ThreadOptions = {
  readonly name: string;
  /** The URL of the module that calls `serveThread`. */
  readonly entry: URL;
  /** The thread's `workerData`. */
  readonly data: unknown;
  readonly limits?: ResourceLimits;
  /** Required with a limit of the old generation. */
  readonly outOfMemory?: () => Error;
  /** The time without calls after which the thread is stopped. Defaults to 30 s: an idle thread takes 10 MB and more. */
  readonly idleMs?: number;
  /**
   * A thread whose heap is larger than this after a call is stopped at once if no other call is pending: V8 does not shrink the heap of
   * a thread that is idle. No limit by default.
   */
  readonly maxIdleHeapBytes?: number;
  /** Called with the reason if the thread exits without being stopped. */
  readonly onUnexpectedExit: (error: Error) => void;
};

type CallMessage<Request> = { readonly id: number; readonly request: Request };
/** `heapBytes` is the size of the thread's heap after the call. */
type ReplyMessage<Reply> = { readonly id: number; readonly heapBytes: number } & Outcome<Reply>;
type Outcome<Reply> =
  | { readonly reply: Reply }
  | { readonly reason: Reason; readonly message: string }
  | { readonly error: Error; readonly properties: object };

/** The message that stops a thread after the calls before it. */
const stopMessage = "stop";

export function openThread<Request, Reply>(options: ThreadOptions): Thread<Request, Reply> {
  const { idleMs = 30_000, maxIdleHeapBytes = Infinity } = options;
  let running: RunningThread<Request, Reply> | undefined;
  let timer: NodeJS.Timeout | undefined;
  let stopped: Promise<unknown> = Promise.resolve();

  async function stop(): Promise<void> {
    clearTimeout(timer);
    stopped = Promise.all([stopped, running?.stop()]);
    running = undefined;
    await stopped;
  }

  return {
    async call(request, transfer = [], signal) {
      signal?.throwIfAborted();
      clearTimeout(timer);
      running ??= new RunningThread(options, () => (running = undefined));
      const thread = running;
      try {
        return await thread.call(request, transfer, signal);
      } finally {
        if (thread === running && thread.isIdle) {
          if (thread.heapBytes > maxIdleHeapBytes) {
            void stop();
          } else {
            timer = setTimeout(() => void stop(), idleMs).unref();
          }
        }
      }
    },
    [Symbol.asyncDispose]: stop,
  };
}

class RunningThread<Request, Reply> {
  /** After the last call. */
  heapBytes = 0;
  readonly #worker: Worker;
  readonly #onExit: () => void;
  readonly #calls = new Map<number, PromiseWithResolvers<Reply>>();
  readonly #exited = Promise.withResolvers<void>();
  #last = 0;
  #isStopping = false;
  #ended: { readonly call: PromiseWithResolvers<Reply>; readonly reason: unknown } | undefined;

  constructor(options: ThreadOptions, onExit: () => void) {
    const { name, entry, data, limits = {} } = options;
    let cause: Error | undefined;
    this.#onExit = onExit;
    this.#worker = new Worker(entry, { name, workerData: data, resourceLimits: limits });
    this.#worker.on("message", (message: ReplyMessage<Reply>) => this.#settle(message));
    this.#worker.on("error", (error: Error) => {
      cause = error;
    });
    this.#worker.on("exit", (code) => this.#handleExit(code, cause, options));
  }

  get isIdle(): boolean {
    return this.#calls.size === 0;
  }

  async call(request: Request, transfer: readonly Transferable[], signal: AbortSignal | undefined): Promise<Reply> {
    const call = Promise.withResolvers<Reply>();
    const sent: CallMessage<Request> = { id: ++this.#last, request };
    this.#calls.set(sent.id, call);
    this.#worker.ref();
    this.#worker.postMessage(sent, [...transfer]);
    const terminate = (): void => {
      this.#ended ??= { call, reason: signal?.reason };
      this.#isStopping = true;
      this.#onExit();
      void this.#worker.terminate();
    };
    signal?.addEventListener("abort", terminate);
    try {
      return await call.promise;
    } finally {
      signal?.removeEventListener("abort", terminate);
    }
  }

  /** Waits for pending calls. */
  async stop(): Promise<void> {
    this.#isStopping = true;
    this.#worker.ref();
    this.#worker.postMessage(stopMessage);
    await this.#exited.promise;
  }

  #settle(message: ReplyMessage<Reply>): void {
    const call = this.#calls.get(message.id);
    this.#calls.delete(message.id);
    this.heapBytes = message.heapBytes;
    if (this.isIdle) {
      this.#worker.unref();
    }
    if ("reason" in message) {
      call?.reject(new FlowgateError(message.reason, message.message));
    } else if ("error" in message) {
      call?.reject(Object.assign(message.error, message.properties));
    } else {
      call?.resolve(message.reply);
    }
  }

  #handleExit(
    code: number,
    cause: Error | undefined,
    { onUnexpectedExit, outOfMemory = unfinished }: ThreadOptions,
  ): void {
    if (!this.#isStopping) {
      onUnexpectedExit(cause ?? new Error(`the thread exited with code ${code}`));
      this.#onExit();
    }
    this.#ended?.call.reject(this.#ended.reason);
    const [current, ...queued] = this.#calls.values();
    current?.reject(isOutOfMemory(cause) ? outOfMemory() : unfinished());
    for (const call of queued) {
      call.reject(unfinished());
    }
    this.#calls.clear();
    this.#exited.resolve();
  }
}

function isOutOfMemory(error: NodeJS.ErrnoException | undefined): boolean {
  return error?.code === "ERR_WORKER_OUT_OF_MEMORY";
}

function unfinished(): FlowgateError {
  return new FlowgateError("unavailable", "the service could not finish the call: try again");
}

/** The result of a handler. The objects in `transfer` are moved instead of copied. */
type ThreadReply<Reply> = { readonly reply: Reply; readonly transfer?: readonly Transferable[] };

type ThreadHandler<Request, Reply> = (request: Request) => ThreadReply<Reply> | Promise<ThreadReply<Reply>>;

/** Serves calls in the thread, one after another. Calls `dispose` when the thread is stopped. */
export function serveThread<Request, Reply>(
  handle: ThreadHandler<Request, Reply>,
  dispose: () => void = () => {},
): void {
  const port = parentPort as MessagePort;
  let queue: Promise<void> = Promise.resolve();

  async function reply({ id, request }: CallMessage<Request>): Promise<void> {
    const send = (message: Outcome<Reply>, transfer: readonly Transferable[] = []): void =>
      port.postMessage({ id, heapBytes: getHeapStatistics().total_heap_size, ...message }, [...transfer]);
    try {
      const { reply: value, transfer } = await handle(request);
      send({ reply: value }, transfer);
    } catch (error) {
      if (error instanceof FlowgateError) {
        send({ reason: error.reason, message: error.message });
        return;
      }
      const failure = error instanceof Error ? error : new Error(String(error));
      // Structured cloning drops own properties of errors, such as the code of a SQLite error.
      send({ error: failure, properties: Object.fromEntries(Object.entries(failure)) });
    }
  }

  port.on("message", (message: CallMessage<Request> | typeof stopMessage) => {
    queue = queue.then(() => {
      if (message !== stopMessage) {
        return reply(message);
      }
      dispose();
      return port.close();
    });
  });
}
