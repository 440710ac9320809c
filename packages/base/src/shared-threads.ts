import type { Transferable } from "node:worker_threads";
import { FlowgateError } from "@flowgate/flows/errors";
import { createFairQueue } from "./fair-queue.ts";
import { openThread, type Thread, type ThreadOptions } from "./thread.ts";

/** On whose behalf a call is made. */
export type Caller = {
  /** Callers with different sources take turns. */
  readonly source: string;
  /** Aborting it ends the call, and the thread that makes it. */
  readonly signal: AbortSignal;
  /** When the time limit began, on the clock of performance.now(). Defaults to the time of the call. */
  readonly startMs?: number;
};

/** Threads that make one call at a time each. Disposing ends them and rejects their calls with `unavailable`. */
export interface SharedThreads<Request, Reply> extends AsyncDisposable {
  /**
   * As `Thread.call`. Rejects with `limit_exceeded` if the call is not finished in time, waiting included, or too many wait. The
   * thread has ended when a call that it was making rejects.
   */
  call(request: Request, caller: Caller, transfer?: readonly Transferable[]): Promise<Reply>;
}

/** The heap that a thread may keep between calls. A new thread costs about as much as a call that needs more. */
const maxIdleHeapBytes = 64 * 1024 * 1024;

export type SharedThreadsOptions = Omit<ThreadOptions, "maxIdleHeapBytes"> & {
  /** How many there are. With two or more, none of the sources can take all of them. */
  readonly count: number;
  /** Their work as a phrase, such as "comparing these flows". */
  readonly work: string;
  readonly limit: TimeLimit;
};

/** How long a call may take, and the option that sets it. */
export type TimeLimit = { readonly maxMs: number; readonly option: string };

const maxQueued = 256;
const maxQueuedPerSource = 64;

export function openSharedThreads<Request, Reply>(options: SharedThreadsOptions): SharedThreads<Request, Reply> {
  const { count, work, limit } = options;
  const threads = Array.from({ length: count }, () => openThread<Request, Reply>({ ...options, maxIdleHeapBytes }));
  const disposal = new AbortController();
  const queue = createFairQueue({
    concurrency: count,
    concurrencyPerSource: Math.max(1, count - 1),
    maxQueued,
    maxQueuedPerSource,
    createFullError: () =>
      new FlowgateError("limit_exceeded", `${work}: too many calls wait for that: try again when they have ended`),
  });

  return {
    async call(request, { source, signal, startMs = performance.now() }, transfer) {
      const deadline = new AbortController();
      let isStarted = false;
      const timer = setTimeout(
        () => deadline.abort(isStarted ? tooSlow(work, limit) : tooBusy(work, limit)),
        Math.max(0, startMs + limit.maxMs - performance.now()),
      );
      const ending = AbortSignal.any([signal, deadline.signal, disposal.signal]);
      const run = async (): Promise<Reply> => {
        isStarted = true;
        // The one that was used last, so that others are stopped while there is little to do.
        const thread = threads.pop() as Thread<Request, Reply>;
        try {
          return await thread.call(request, transfer, ending);
        } finally {
          threads.push(thread);
        }
      };
      try {
        return await queue.run(run, { source, signal: ending });
      } finally {
        clearTimeout(timer);
      }
    },
    async [Symbol.asyncDispose]() {
      disposal.abort(new FlowgateError("unavailable", "the service is shutting down: try again"));
      await Promise.all(threads.map((thread) => thread[Symbol.asyncDispose]()));
    },
  };
}

function tooSlow(work: string, { maxMs, option }: TimeLimit): FlowgateError {
  return new FlowgateError(
    "limit_exceeded",
    `${work} took more than ${maxMs / 1000} s: make the flows smaller or simpler, or raise ${option}`,
  );
}

function tooBusy(work: string, { maxMs, option }: TimeLimit): FlowgateError {
  return new FlowgateError(
    "limit_exceeded",
    `${work} could not begin within ${maxMs / 1000} s (${option}), since other calls took that long: try again later`,
  );
}
