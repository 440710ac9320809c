import { writeSync } from "node:fs";
import type { Server, Socket } from "node:net";
import { readSocketProgress } from "./socket-progress.ts";

/** A GOAWAY frame (RFC 9113, section 6.8) of the highest stream id there is, and no error. */
const frame = Buffer.from([0, 0, 8, 7, 0, 0, 0, 0, 0, 0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 0]);

/**
 * Tells an HTTP/2 client that its connection will end, while the streams that it still opens are served. False where
 * that can't be done now, since something waits to be sent, or at all, as where the system has no file descriptors.
 *
 * `session.goaway()` can't do it: whatever it names as the last stream, from then on new streams are dropped without
 * a word, and nghttp2's own notice has no name in Node. So it is written beneath the session, between two frames: a
 * session hands over whole ones, and what was handed over is out where nothing waits. Not for TLS.
 */
export function sendShutdownNotice(socket: Socket): boolean {
  const fd = descriptorOf(socket);
  if (fd < 0 || readSocketProgress(socket).unsentBytes > 0) {
    return false;
  }
  try {
    if (writeSync(fd, frame) < frame.length) {
      // Half a frame can't be taken back.
      socket.destroy();
    }
    return true;
  } catch {
    // The connection is full, or broken; who uses it will see.
    return false;
  }
}

/** Whether this Node tells the descriptors of connections. Without them, clients get one GOAWAY instead of two. */
export function canSendShutdownNotice(listening: Server): boolean {
  return process.platform === "win32" || descriptorOf(listening) >= 0;
}

function descriptorOf(connection: Socket | Server): number {
  const { _handle: handle } = connection as { readonly _handle?: { readonly fd?: unknown } | null };
  return typeof handle?.fd === "number" ? handle.fd : -1;
}
