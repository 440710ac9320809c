// A thread that keeps slow connections open, separate from the thread that measures times.
import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { setTimeout as delay } from "node:timers/promises";
import { parentPort, workerData } from "node:worker_threads";

/** What a connection sends first, and then repeatedly. */
export type Attack = {
  readonly first: Uint8Array;
  readonly more: Uint8Array;
  /** Whether the server responds to what it sends first, as HTTP/2 does. */
  readonly isAnswered: boolean;
};

export type Attackers = Attack & { readonly port: number; readonly connections: number; readonly intervalMs: number };

if (parentPort !== null) {
  const { port, connections, intervalMs, first, more, isAnswered } = workerData as Attackers;
  const open = async (): Promise<void> => {
    const socket: Socket = connect({ host: "127.0.0.1", port });
    socket.on("error", () => {});
    await once(socket, "connect");
    socket.resume().write(first);
    // Without this, the time that the server takes to create 200 sessions would be measured too.
    if (isAnswered) {
      await once(socket, "data");
    }
    if (more.length > 0) {
      // Distributes the connections over the interval.
      await delay(Math.random() * intervalMs);
      const timer = setInterval(() => socket.write(more), intervalMs);
      socket.once("close", () => clearInterval(timer));
    }
  };
  await Promise.all(Array.from({ length: connections }, open));
  parentPort.postMessage("open");
}
