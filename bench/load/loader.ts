import { fork } from "node:child_process";
import { once } from "node:events";
import { endProcess } from "../server.ts";
import type { Answer, Target } from "./target.ts";

export type ToLoader =
  | { readonly kind: "open"; readonly url: string; readonly target: Target }
  | { readonly kind: "run"; readonly ms: number }
  | { readonly kind: "watch"; readonly url: string; readonly connections: number; readonly streams: number }
  | { readonly kind: "untilNotified" }
  | { readonly kind: "close" };

export type FromLoader = { readonly failure: string } | { readonly value: unknown };

export type Run = {
  readonly calls: number;
  readonly ms: number;
  /** CPU time of the loader. */
  readonly cpuMs: number;
};

/** A process that loads servers: one target at a time. Disposing ends it. */
export interface Loader extends AsyncDisposable {
  /** Connects, makes the first call, and answers what it was answered. */
  open(url: string, target: Target): Promise<Answer>;
  /** Makes calls for so long. Throws when one has another answer than the first one had. */
  run(ms: number): Promise<Run>;
  /** Opens so many streams of grpc.health.v1.Health/Watch; resolves when each has had its first message. */
  watch(url: string, connections: number, streams: number): Promise<void>;
  /** Resolves when each of them has had its second message, which must say NOT_SERVING. */
  untilNotified(): Promise<void>;
  /** Ends all connections. */
  close(): Promise<void>;
}

export function openLoader(): Loader {
  const child = fork(new URL("process.ts", import.meta.url), { serialization: "advanced" });
  const ask = async (question: ToLoader): Promise<unknown> => {
    const answer = once(child, "message", { signal: AbortSignal.timeout(120_000) });
    child.send(question);
    const [message] = (await answer) as [FromLoader];
    if ("failure" in message) {
      throw new Error(message.failure);
    }
    return message.value;
  };
  return {
    open: async (url, target) => (await ask({ kind: "open", url, target })) as Answer,
    run: async (ms) => (await ask({ kind: "run", ms })) as Run,
    watch: async (url, connections, streams) => void (await ask({ kind: "watch", url, connections, streams })),
    untilNotified: async () => void (await ask({ kind: "untilNotified" })),
    close: async () => void (await ask({ kind: "close" })),
    [Symbol.asyncDispose]: () => endProcess(child),
  };
}
