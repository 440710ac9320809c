import type { Socket } from "node:net";

/** The HTTP/2 client preface (RFC 9113, section 3.4). It can't begin an HTTP/1 request: the method PRI is reserved. */
const preface = Buffer.from("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");

/** A connection whose protocol is known. With TLS, the socket is the TLS socket instead of the accepted one. */
export type DetectedConnection = {
  readonly socket: Socket;
  readonly protocol: "http1" | "http2";
  /** Unix time at which it must stop taking calls: when the client certificate expires. */
  readonly retireAtMs?: number;
};

/**
 * Calls back once with the protocol of a connection, whose bytes are still unread. A connection that ends before is
 * destroyed without a callback. The caller must limit the time.
 */
export type ProtocolDetector = (socket: Socket, onDetected: (connection: DetectedConnection) => void) => void;

/** Detects the protocol from the first bytes. */
export const sniff: ProtocolDetector = (socket, onDetected) => {
  let head: Buffer = Buffer.alloc(0);

  const onData = (chunk: Buffer): void => {
    head = head.length === 0 ? chunk : Buffer.concat([head, chunk]);
    const shared = Math.min(head.length, preface.length);
    const isPreface = head.compare(preface, 0, shared, 0, shared) === 0;
    // HTTP/2 gets the complete preface only, since it would wait for the rest without a timeout.
    if (isPreface && shared < preface.length) {
      return;
    }
    removeListeners();
    if (isPreface) {
      // The bytes put back would be lost if the socket kept flowing: HTTP/2 reads them on the next tick.
      socket.pause();
      // HTTP/2 has no half-closed connections, and would wait for this one to end.
      socket.allowHalfOpen = false;
    }
    socket.unshift(head);
    onDetected({ socket, protocol: isPreface ? "http2" : "http1" });
  };
  const onEnd = (): void => {
    socket.destroy();
  };
  const removeListeners = (): void => {
    socket.off("data", onData);
    socket.off("end", onEnd);
    socket.off("close", removeListeners);
  };

  socket.on("data", onData);
  socket.on("end", onEnd);
  socket.on("close", removeListeners);
};
