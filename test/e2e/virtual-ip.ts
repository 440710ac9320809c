import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";

/** An address before the instances of a service, as kube-proxy makes one: it knows connections, and nothing of HTTP. */
export type VirtualIp = AsyncDisposable & {
  readonly port: number;
  /** New connections go to this port from now on; those that are stay where they are. */
  sendTo(port: number): void;
};

export async function openVirtualIp(): Promise<VirtualIp> {
  let target = 0;
  const sockets = new Set<Socket>();
  const server = createServer({ allowHalfOpen: true, noDelay: true }, (near) => {
    const far = connect({ port: target, host: "127.0.0.1", allowHalfOpen: true, noDelay: true });
    join(near, far);
    join(far, near);
  });
  const join = (from: Socket, to: Socket): void => {
    sockets.add(from);
    // An end passes through as an end, and a reset, or a connection that is refused, as a reset.
    from.on("error", () => to.resetAndDestroy());
    from.on("close", () => sockets.delete(from));
    from.pipe(to);
  };
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  return {
    port,
    sendTo(next) {
      target = next;
    },
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) {
        socket.destroy();
      }
      server.close();
      await once(server, "close");
    },
  };
}
