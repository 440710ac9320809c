import type { Socket } from "node:net";

/** RFC 9113, section 3.4. No HTTP/1 method begins like it: PRI is reserved. */
const preface = Buffer.from("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");

/** A connection whose protocol is known. The socket may be another than the one that was accepted: that of TLS. */
export type DetectedConnection = {
  readonly socket: Socket;
  readonly protocol: "http1" | "http2";
  /** When it has to take no more calls, by the clock: the end of its client's certificate. */
  readonly goodUntilMs?: number;
};

/**
 * Tells, once, which protocol a connection speaks, with its bytes put back. A connection that ends before is
 * destroyed and never told of; whoever asks limits the time.
 */
export type ProtocolDetector = (socket: Socket, decided: (connection: DetectedConnection) => void) => void;

/** Decides by the first bytes. */
export const sniff: ProtocolDetector = (socket, decided) => {
  let head: Buffer = Buffer.alloc(0);

  const onData = (chunk: Buffer): void => {
    head = head.length === 0 ? chunk : Buffer.concat([head, chunk]);
    const shared = Math.min(head.length, preface.length);
    const isPreface = head.compare(preface, 0, shared, 0, shared) === 0;
    // Only the whole preface goes to HTTP/2, which would wait for the rest of one for ever.
    if (isPreface && shared < preface.length) {
      return;
    }
    forget();
    if (isPreface) {
      // Paused, or what is put back would flow to no one: HTTP/2 fetches it on the next tick.
      socket.pause();
      // HTTP/2 knows no half-closed connection, and would wait for one to end.
      socket.allowHalfOpen = false;
    }
    socket.unshift(head);
    decided({ socket, protocol: isPreface ? "http2" : "http1" });
  };
  const onEnd = (): void => {
    socket.destroy();
  };
  const forget = (): void => {
    socket.off("data", onData);
    socket.off("end", onEnd);
    socket.off("close", forget);
  };

  socket.on("data", onData);
  socket.on("end", onEnd);
  socket.on("close", forget);
};
