import { once } from "node:events";
import { connect, type Socket } from "node:net";

/** Opens a TCP connection whose bytes are sent unchanged. */
export async function openRaw(port: number): Promise<RawConnection> {
  const socket = connect({ port, host: "127.0.0.1", noDelay: true });
  await once(socket, "connect");
  return createRaw(socket);
}

export interface RawConnection extends Disposable {
  readonly socket: Socket;
  write(data: string | Buffer): void;
  /** The text received so far. */
  received(): string;
  /** Waits until the received text matches, and returns it. */
  until(pattern: RegExp): Promise<string>;
  /** Waits until the predicate is true for the received text, and returns it. */
  untilTrue(holds: (received: string) => boolean): Promise<string>;
  /** Waits until the connection is closed, and returns the received text. */
  closed(): Promise<string>;
}

function createRaw(socket: Socket): RawConnection {
  let received = "";
  let hasClosed = false;
  const waiting = new Set<() => void>();
  socket.on("data", (chunk: Buffer) => {
    received += chunk.toString("latin1");
    for (const check of waiting) {
      check();
    }
  });
  // A reset is reported by the close event.
  socket.on("error", () => {});
  socket.on("close", () => {
    hasClosed = true;
    for (const check of waiting) {
      check();
    }
  });
  const waitFor = (condition: () => boolean, isHopeless: () => boolean = () => false): Promise<string> =>
    new Promise((resolve, reject) => {
      const check = (): void => {
        if (condition()) {
          resolve(received);
        } else if (isHopeless()) {
          reject(new Error(`the connection ended after ${JSON.stringify(received)}`));
        } else {
          waiting.add(check);
        }
      };
      check();
    });
  return {
    socket,
    write: (data) => void socket.write(data),
    received: () => received,
    until: (pattern) =>
      waitFor(
        () => pattern.test(received),
        () => hasClosed,
      ),
    untilTrue: (holds) =>
      waitFor(
        () => holds(received),
        () => hasClosed,
      ),
    closed: () => waitFor(() => hasClosed),
    [Symbol.dispose]: () => void socket.destroy(),
  };
}
