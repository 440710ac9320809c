import { once } from "node:events";
import { connect, type Socket } from "node:net";

/** A raw TCP connection, which sends bytes as they are written. */
export async function openRaw(port: number): Promise<RawConnection> {
  const socket = connect({ port, host: "127.0.0.1", noDelay: true });
  await once(socket, "connect");
  return createRaw(socket);
}

export interface RawConnection extends Disposable {
  readonly socket: Socket;
  write(data: string | Buffer): void;
  /** Everything received so far, once it matches. */
  until(pattern: RegExp): Promise<string>;
  /** Everything received so far, once this holds of it. */
  untilThat(holds: (received: string) => boolean): Promise<string>;
  /** Everything received, once the server has ended the connection. */
  closed(): Promise<string>;
}

function createRaw(socket: Socket): RawConnection {
  let received = "";
  let hasClosed = false;
  const waiting = new Set<() => void>();
  socket.on("data", (chunk: Buffer) => {
    received += chunk.toString("latin1");
    for (const look of waiting) {
      look();
    }
  });
  // A reset shows as a close.
  socket.on("error", () => {});
  socket.on("close", () => {
    hasClosed = true;
    for (const look of waiting) {
      look();
    }
  });
  const when = (condition: () => boolean, unless: () => boolean = () => false): Promise<string> =>
    new Promise((resolve, reject) => {
      const look = (): void => {
        if (condition()) {
          resolve(received);
        } else if (unless()) {
          reject(new Error(`the connection ended after ${JSON.stringify(received)}`));
        } else {
          waiting.add(look);
        }
      };
      look();
    });
  return {
    socket,
    write: (data) => void socket.write(data),
    until: (pattern) =>
      when(
        () => pattern.test(received),
        () => hasClosed,
      ),
    untilThat: (holds) =>
      when(
        () => holds(received),
        () => hasClosed,
      ),
    closed: () => when(() => hasClosed),
    [Symbol.dispose]: () => void socket.destroy(),
  };
}
