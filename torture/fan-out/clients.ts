import { fork } from "node:child_process";
import { once } from "node:events";
import type { Received } from "./check-deliveries.ts";
import type { ClientOptions, FromClients, ToClients } from "./client-process.ts";

/** A process of clients. Disposing ends it. */
export type Clients = Disposable & {
  /** Resolves when each has the current state. */
  readonly started: Promise<void>;
  /** Suspends the process, so that nothing is read any more. */
  stop(): void;
  /** Resolves when each has read the last deployment, or has had the time to. */
  finish(lastRev: string): Promise<readonly Received[]>;
};

export function openClients(options: ClientOptions): Clients {
  const child = fork(new URL("client-process.ts", import.meta.url), [JSON.stringify(options)], {
    // Keeps one object of an event that several clients have received.
    serialization: "advanced",
  });
  const exited = once(child, "exit").then(() => Promise.reject(new Error("a process of clients has ended")));
  exited.catch(() => {});
  const next = async <K extends FromClients["kind"]>(kind: K): Promise<Extract<FromClients, { readonly kind: K }>> => {
    const [message] = (await Promise.race([once(child, "message"), exited])) as [FromClients];
    if (message.kind !== kind) {
      throw new Error(`clients sent ${message.kind} instead of ${kind}`);
    }
    return message as Extract<FromClients, { readonly kind: K }>;
  };
  let hasStopped = false;
  return {
    started: next("started").then(() => {}),
    stop() {
      hasStopped = true;
      child.kill("SIGSTOP");
    },
    async finish(lastRev) {
      child.kill("SIGCONT");
      child.send({ lastRev } satisfies ToClients);
      const { received } = await next("read");
      return received.map((each) => ({ ...each, hasStopped }));
    },
    [Symbol.dispose]: () => void child.kill("SIGKILL"),
  };
}
