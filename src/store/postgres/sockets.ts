import { Socket } from "node:net";

/** The sockets of connections to one server. */
export interface Sockets {
  /** Creates the socket of a new connection. */
  create(): Socket;
  /** Closes them at once, so that queries in progress fail, also if the server does not respond. */
  destroy(): void;
}

export function createSockets(): Sockets {
  const open = new Set<Socket>();
  return {
    create() {
      const socket = new Socket();
      open.add(socket);
      socket.once("close", () => open.delete(socket));
      return socket;
    },
    destroy() {
      for (const socket of open) {
        socket.destroy();
      }
    },
  };
}
