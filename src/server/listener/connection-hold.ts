import type { Socket } from "node:net";
import { resetConnection } from "./reset-connection.ts";

/**
 * After the runtime has exceeded its share, each of its new connections stays unread for a random time: on average `minHoldMs`,
 * or longer, so that at most `maxHeldPerMs` of them are released per millisecond. Its flows reconnect at once, and a connection of
 * an operator would otherwise wait behind thousands of theirs.
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
