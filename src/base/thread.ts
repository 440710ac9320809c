import { getHeapStatistics } from "node:v8";
import { type MessagePort, parentPort, type ResourceLimits, type Transferable, Worker } from "node:worker_threads";
import { FlowgateError, type Reason } from "../errors.ts";

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
type ReplyMessage<Reply> = { readonly id: number; readonly heapBytes: number } & (
  | { readonly reply: Reply }
  | { readonly reason: Reason; readonly message: string }
  | { readonly error: Error; readonly properties: object }
);

/** The message that stops a thread after the calls before it. */
const stopMessage = "stop";

export function openThread<Request, Reply>(options: ThreadOptions): Thread<Request, Reply> {
  const { idleMs = 30_000, maxIdleHeapBytes = Infinity } = options;
  let running: Running<Request, Reply> | undefined;
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
      running ??= start(options, () => (running = undefined));
      const thread = running;
      try {
        return await thread.call(request, transfer, signal);
      } finally {
        if (thread === running && thread.isIdle()) {
          if (thread.heapBytes() > maxIdleHeapBytes) {
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

type Running<Request, Reply> = Pick<Thread<Request, Reply>, "call"> & {
  isIdle(): boolean;
  /** After the last call. */
  heapBytes(): number;
  /** Waits for pending calls. */
  stop(): Promise<void>;
};

function start<Request, Reply>(
  { name, entry, data, limits = {}, outOfMemory = unfinished, onUnexpectedExit }: ThreadOptions,
  onExit: () => void,
): Running<Request, Reply> {
  const calls = new Map<number, PromiseWithResolvers<Reply>>();
  const { promise: exited, resolve: exit } = Promise.withResolvers<void>();
  let last = 0;
  let heapBytes = 0;
  let cause: Error | undefined;
  let isStopping = false;
  let ended: { readonly call: PromiseWithResolvers<Reply>; readonly reason: unknown } | undefined;
  const worker = new Worker(entry, { name, workerData: data, resourceLimits: limits });
  worker.on("message", (message: ReplyMessage<Reply>) => {
    const call = calls.get(message.id);
    calls.delete(message.id);
    ({ heapBytes } = message);
    if (calls.size === 0) {
      worker.unref();
    }
    if ("reason" in message) {
      call?.reject(new FlowgateError(message.reason, message.message));
    } else if ("error" in message) {
      call?.reject(Object.assign(message.error, message.properties));
    } else {
      call?.resolve(message.reply);
    }
  });
  worker.on("error", (error: Error) => {
    cause = error;
  });
  worker.on("exit", (code) => {
    if (!isStopping) {
      onUnexpectedExit(cause ?? new Error(`the thread exited with code ${code}`));
      onExit();
    }
    ended?.call.reject(ended.reason);
    const [current, ...queued] = calls.values();
    current?.reject(isOutOfMemory(cause) ? outOfMemory() : unfinished());
    for (const call of queued) {
      call.reject(unfinished());
    }
    calls.clear();
    exit();
  });
  return {
    isIdle: () => calls.size === 0,
    heapBytes: () => heapBytes,
    async call(request, transfer = [], signal) {
      const call = Promise.withResolvers<Reply>();
      const sent: CallMessage<Request> = { id: ++last, request };
      calls.set(sent.id, call);
      worker.ref();
      // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread, not a window
      worker.postMessage(sent, [...transfer]);
      const terminate = (): void => {
        ended ??= { call, reason: signal?.reason };
        isStopping = true;
        onExit();
        void worker.terminate();
      };
      signal?.addEventListener("abort", terminate);
      try {
        return await call.promise;
      } finally {
        signal?.removeEventListener("abort", terminate);
      }
    },
    async stop() {
      isStopping = true;
      worker.ref();
      // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread, not a window
      worker.postMessage(stopMessage);
      await exited;
    },
  };
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
  const heapBytes = (): number => getHeapStatistics().total_heap_size;

  async function reply({ id, request }: CallMessage<Request>): Promise<void> {
    try {
      const { reply: value, transfer = [] } = await handle(request);
      // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread, not a window
      port.postMessage({ id, heapBytes: heapBytes(), reply: value } satisfies ReplyMessage<Reply>, [...transfer]);
    } catch (error) {
      if (error instanceof FlowgateError) {
        const { reason, message } = error;
        // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread, not a window
        port.postMessage({ id, heapBytes: heapBytes(), reason, message } satisfies ReplyMessage<Reply>);
        return;
      }
      const failure = error instanceof Error ? error : new Error(String(error));
      // Structured cloning drops own properties of errors, such as the code of a SQLite error.
      const properties = Object.fromEntries(Object.entries(failure));
      // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread, not a window
      port.postMessage({ id, heapBytes: heapBytes(), error: failure, properties } satisfies ReplyMessage<Reply>);
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
