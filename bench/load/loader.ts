import { fork } from "node:child_process";
import { once } from "node:events";
import { endProcess } from "../server.ts";
import type { EventStreamsOptions } from "./events.ts";
import type { CallResponse, Target } from "./target.ts";

export type ToLoader =
  | { readonly kind: "open"; readonly url: string; readonly target: Target }
  | { readonly kind: "run"; readonly ms: number }
  | { readonly kind: "watch"; readonly url: string; readonly connections: number; readonly streams: number }
  | { readonly kind: "untilNotified" }
  | { readonly kind: "watchEvents"; readonly options: EventStreamsOptions }
  | { readonly kind: "untilReceived"; readonly count: number }
  | { readonly kind: "received" }
  | { readonly kind: "close" };

export type FromLoader = { readonly failure: string } | { readonly value: unknown };

export type Run = {
  readonly calls: number;
  readonly ms: number;
  /** CPU time of the loader. */
  readonly cpuMs: number;
};

/** A process that generates load for one target at a time. Disposing stops it. */
export interface Loader extends AsyncDisposable {
  /** Connects, makes the first call, and resolves with its response. */
  open(url: string, target: Target): Promise<CallResponse>;
  /** Makes calls for this time. Rejects if a response differs from the first one. */
  run(ms: number): Promise<Run>;
  /** Opens streams of grpc.health.v1.Health/Watch. Resolves when each has received its first message. */
  watch(url: string, connections: number, streams: number): Promise<void>;
  /** Resolves when each stream has received its second message, which must be NOT_SERVING. */
  untilNotified(): Promise<void>;
  /** Opens streams of the events of deployments. Resolves when each has the current state. */
  watchEvents(options: EventStreamsOptions): Promise<void>;
  /** Resolves when these streams have received that many events. */
  untilReceived(count: number): Promise<void>;
  /** How many they have received. */
  received(): Promise<number>;
  /** Closes all connections. */
  close(): Promise<void>;
}

export function openLoader(): Loader {
  const child = fork(new URL("process.ts", import.meta.url), { serialization: "advanced" });
  const request = async (command: ToLoader): Promise<unknown> => {
    const reply = once(child, "message", { signal: AbortSignal.timeout(120_000) });
    child.send(command);
    const [message] = (await reply) as [FromLoader];
    if ("failure" in message) {
      throw new Error(message.failure);
    }
    return message.value;
  };
  return {
    open: async (url, target) => (await request({ kind: "open", url, target })) as CallResponse,
    run: async (ms) => (await request({ kind: "run", ms })) as Run,
    watch: async (url, connections, streams) => void (await request({ kind: "watch", url, connections, streams })),
    untilNotified: async () => void (await request({ kind: "untilNotified" })),
    watchEvents: async (options) => void (await request({ kind: "watchEvents", options })),
    untilReceived: async (count) => void (await request({ kind: "untilReceived", count })),
    received: async () => (await request({ kind: "received" })) as number,
    close: async () => void (await request({ kind: "close" })),
    [Symbol.asyncDispose]: () => endProcess(child),
  };
}
