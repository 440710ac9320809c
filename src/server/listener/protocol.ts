import type { Socket } from "node:net";

/** One of the two HTTP versions, on connections that are known to speak it. */
export interface Protocol {
  /** `accepted` is the connection beneath: the same socket, or where TLS is spoken another. */
  serve(socket: Socket, accepted: Socket): void;
  /** The connection takes no new calls, as soon as its client can know. */
  retire(socket: Socket): void;
  /** Ends whatever is beyond its limits by now. */
  sweep(nowMs: number): void;
  /**
   * Takes no new work, and lets calls in flight finish. Resolves when all clients know that their connections end, or
   * have had the time to.
   */
  close(): Promise<void>;
}
