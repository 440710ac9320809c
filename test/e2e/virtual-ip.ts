import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";

/** A virtual IP in front of the instances of a service, like that of kube-proxy: it forwards TCP connections. */
export type VirtualIp = AsyncDisposable & {
  readonly port: number;
  /** Forwards new connections to this port. Existing ones stay. */
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
    // An end is forwarded as an end, and a reset or a refused connection as a reset.
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
