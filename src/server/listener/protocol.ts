import type { Socket } from "node:net";
import type { AcceptedConnection } from "./accepted-connection.ts";

/** One of the two HTTP versions, on connections whose protocol has been detected. */
export interface Protocol {
  /** `socket` differs from that of the connection with TLS. */
  serve(socket: Socket, connection: AcceptedConnection): void;
  /** Makes the connection take no new calls, after notifying its client. */
  retire(socket: Socket): void;
  /** Ends connections and streams that exceed a limit. Called periodically. */
  enforceLimits(nowMs: number): void;
  /**
   * Takes no new calls, and lets calls in flight finish. Resolves when all clients were notified that their connections
   * close, or the time for that has passed.
   */
  close(): Promise<void>;
}
