import { type MessagePort, parentPort, type ResourceLimits, type Transferable, Worker } from "node:worker_threads";
import { FlowgateError } from "./errors.ts";

/** A worker thread that is started when it is needed, and ended when it was idle for a while. */
export interface Thread<Request, Reply> extends AsyncDisposable {
  /**
   * Calls the thread. Rejects with what its handler throws: an Error with the same message and the same properties of its
   * own, but of no class; with `unavailable` if the thread ends before it has answered.
   */
  call(request: Request, transfer?: readonly Transferable[]): Promise<Reply>;
}

export type ThreadOptions = {
  readonly name: string;
  /** Of the module that calls `serveThread`. */
  readonly entry: URL;
  readonly data: unknown;
  readonly limits?: ResourceLimits;
  /** After so long without a call it ends. Default: 30 s, for an idle thread holds 10 MB and more. */
  readonly idleMs?: number;
  /** Called with the reason if the thread ends by itself. */
  readonly died: (error: Error) => void;
};

type Sent<Request> = { readonly id: number; readonly request: Request };
type Answered<Reply> = { readonly id: number } & (
  | { readonly reply: Reply }
  | { readonly error: Error; readonly properties: object }
);

/** Ends a thread in order. */
const end = "end";

export function createThread<Request, Reply>(options: ThreadOptions): Thread<Request, Reply> {
  const { idleMs = 30_000 } = options;
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
    async call(request, transfer = []) {
      clearTimeout(timer);
      running ??= start(options, () => (running = undefined));
      const used = running;
      try {
        return await used.call(request, transfer);
      } finally {
        if (used === running && used.isIdle()) {
          timer = setTimeout(() => void stop(), idleMs).unref();
        }
      }
    },
    [Symbol.asyncDispose]: stop,
  };
}

type Running<Request, Reply> = Pick<Thread<Request, Reply>, "call"> & {
  isIdle(): boolean;
  /** Waits for the calls that are under way. */
  stop(): Promise<void>;
};

function start<Request, Reply>(
  { name, entry, data, limits = {}, died }: ThreadOptions,
  ended: () => void,
): Running<Request, Reply> {
  const calls = new Map<number, PromiseWithResolvers<Reply>>();
  const { promise: exited, resolve: exit } = Promise.withResolvers<void>();
  let last = 0;
  let cause: Error | undefined;
  let isStopping = false;
  const worker = new Worker(entry, { name, workerData: data, resourceLimits: limits });
  worker.on("message", (answered: Answered<Reply>) => {
    const call = calls.get(answered.id);
    calls.delete(answered.id);
    if (calls.size === 0) {
      worker.unref();
    }
    if ("error" in answered) {
      call?.reject(Object.assign(answered.error, answered.properties));
    } else {
      call?.resolve(answered.reply);
    }
  });
  worker.on("error", (error: Error) => {
    cause = error;
  });
  worker.on("exit", (code) => {
    if (!isStopping) {
      died(cause ?? new Error(`the thread ended with ${code}`));
      ended();
    }
    for (const call of calls.values()) {
      call.reject(new FlowgateError("unavailable", "the service could not finish the call: try again"));
    }
    calls.clear();
    exit();
  });
  return {
    isIdle: () => calls.size === 0,
    call(request, transfer = []) {
      const call = Promise.withResolvers<Reply>();
      const sent: Sent<Request> = { id: ++last, request };
      calls.set(sent.id, call);
      worker.ref();
      // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread, not a window
      worker.postMessage(sent, [...transfer]);
      return call.promise;
    },
    async stop() {
      isStopping = true;
      worker.ref();
      // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread, not a window
      worker.postMessage(end);
      await exited;
    },
  };
}

/** What a handler gives back; `transfer` is not copied. */
type ThreadReply<Reply> = { readonly reply: Reply; readonly transfer?: readonly Transferable[] };

type ThreadHandler<Request, Reply> = (request: Request) => ThreadReply<Reply> | Promise<ThreadReply<Reply>>;

/** In the thread: answers the calls one after another, and runs `dispose` when it is to end. */
export function serveThread<Request, Reply>(
  handle: ThreadHandler<Request, Reply>,
  dispose: () => void = () => {},
): void {
  const port = parentPort as MessagePort;
  let queue: Promise<void> = Promise.resolve();

  async function answer({ id, request }: Sent<Request>): Promise<void> {
    try {
      const { reply, transfer = [] } = await handle(request);
      // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread, not a window
      port.postMessage({ id, reply } satisfies Answered<Reply>, [...transfer]);
    } catch (error) {
      const failure = error instanceof Error ? error : new Error(String(error));
      // An error is sent without its properties, such as the code of an error of SQLite.
      const properties = Object.fromEntries(Object.entries(failure));
      // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread, not a window
      port.postMessage({ id, error: failure, properties } satisfies Answered<Reply>);
    }
  }

  port.on("message", (message: Sent<Request> | typeof end) => {
    queue = queue.then(() => {
      if (message !== end) {
        return answer(message);
      }
      dispose();
      return port.close();
    });
  });
}
