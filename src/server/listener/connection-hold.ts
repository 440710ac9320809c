import type { Socket } from "node:net";
import { resetConnection } from "./reset-connection.ts";

/**
 * How long, on average, a new connection of the runtime is not read after it has exceeded its share, since flows connect again at
 * once: at least this, and so long that all of those connect at this rate at most. Otherwise a new connection of an operator would
 * wait behind thousands until it is accepted. Randomized, so that they do not all connect at the same time.
 */
const minHoldMs = 1_000;
const maxHeldPerMs = 0.5;

/** Connections that are not read for a while. */
export type ConnectionHold = {
  size(): number;
  /** Calls back when the time of the connection is over, unless it has closed. */
  begin(socket: Socket, onEnd: () => void): void;
  /** Resets all of them. */
  close(): void;
};

export function createConnectionHold(): ConnectionHold {
  const held = new Set<Socket>();
  return {
    size: () => held.size,
    begin(socket, onEnd) {
      held.add(socket);
      const timer = setTimeout(
        () => {
          held.delete(socket);
          onEnd();
        },
        Math.max(minHoldMs, held.size / maxHeldPerMs) * 2 * Math.random(),
      );
      socket.once("close", () => {
        held.delete(socket);
        clearTimeout(timer);
      });
    },
    close: () => held.forEach(resetConnection),
  };
}
