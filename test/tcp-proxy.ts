import { once } from "node:events";
import { connect, createServer, type Socket } from "node:net";
import { Transform } from "node:stream";
import { freePort } from "./free-port.ts";

/** Forwards TCP connections, and disturbs them. */
export type TcpProxy = AsyncDisposable & {
  readonly port: number;
  /** Forwards new connections to this port. Existing ones stay. */
  sendTo(port: number): void;
  /** Resets all connections, or those that the upstream sees with these client ports. */
  cut(...clientPorts: readonly number[]): void;
  /** Forwards nothing more, in any connection, neither bytes nor ends. New connections are accepted. */
  stall(): void;
  /** Forwards again, first what came in the meantime. */
  resume(): void;
  /** Resets all connections, and refuses new ones. */
  close(): Promise<void>;
  /** Accepts connections again after `close`, on the same port. */
  open(): Promise<void>;
};

/** What comes from the far end passes through `latency`, if there is one. */
type Connection = { readonly near: Socket; readonly far: Socket; readonly latency: Transform | undefined };

/** Opens a proxy of a port of 127.0.0.1. What comes from there takes `latencyMs`. */
export async function openTcpProxy(upstream: number, latencyMs = 0): Promise<TcpProxy> {
  let target = upstream;
  let stalled = false;
  const connections = new Set<Connection>();
  const server = createServer({ allowHalfOpen: true, noDelay: true }, (near) => {
    const far = connect({ port: target, host: "127.0.0.1", allowHalfOpen: true, noDelay: true });
    const latency = latencyMs === 0 ? undefined : createLatency(latencyMs);
    const connection = { near, far, latency };
    connections.add(connection);
    forwardReset(near, far);
    forwardReset(far, near);
    for (const socket of [near, far]) {
      socket.on("close", () => near.closed && far.closed && connections.delete(connection));
    }
    if (!stalled) {
      join(connection);
    }
  });
  const reset = (chosen: Iterable<Connection>): void => {
    for (const { near, far } of chosen) {
      near.resetAndDestroy();
      far.resetAndDestroy();
    }
  };
  const close = async (): Promise<void> => {
    reset(connections);
    server.close();
    await once(server, "close");
  };
  const port = await freePort();
  const open = async (): Promise<void> => {
    server.listen(port, "127.0.0.1");
    await once(server, "listening");
  };
  await open();
  return {
    port,
    sendTo(next) {
      target = next;
    },
    cut(...clientPorts) {
      const isChosen = ({ far }: Connection): boolean => clientPorts.includes(far.localPort ?? 0);
      reset(clientPorts.length === 0 ? connections : [...connections].filter(isChosen));
    },
    stall() {
      stalled = true;
      connections.forEach(part);
    },
    resume() {
      if (stalled) {
        stalled = false;
        connections.forEach(join);
      }
    },
    close,
    open,
    async [Symbol.asyncDispose]() {
      if (server.listening) {
        await close();
      }
    },
  };
}

function join({ near, far, latency }: Connection): void {
  near.pipe(far);
  (latency === undefined ? far : far.pipe(latency)).pipe(near);
}

function part({ near, far, latency }: Connection): void {
  near.unpipe(far);
  far.unpipe();
  latency?.unpipe();
}

function createLatency(ms: number): Transform {
  return new Transform({
    transform(chunk, _encoding, done) {
      setTimeout(() => this.push(chunk), ms);
      done();
    },
    flush(done) {
      setTimeout(done, ms);
    },
  });
}

/** A reset or a refused connection becomes a reset. */
function forwardReset(from: Socket, to: Socket): void {
  from.on("error", () => to.resetAndDestroy());
}
