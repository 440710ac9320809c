import type { AcceptedConnection } from "./connection.ts";
import type { ListenerOptions, RuntimeSockets } from "./listener-options.ts";

type Owners = Awaited<ReturnType<RuntimeSockets["find"]>>;

export type Identification<Connection extends AcceptedConnection> = {
  /** Returns whether a new connection can be one of the runtime. Identifies all when there are many. */
  track(connection: Connection): boolean;
  identify(connection: Connection): Promise<void>;
  /** New connections do not wait until those before them are identified: they share the next lookup. */
  identifyAll(): Promise<void>;
  /** Must be called when a connection has closed. */
  forget(connection: Connection): void;
};

/** Determines which connections the runtime has made. `onIdentified` is called with the owners of their other ends. */
export function createIdentification<Connection extends AcceptedConnection>(
  { connectionsPerSource, runtimeSockets }: ListenerOptions,
  onIdentified: (connections: readonly Connection[], owners: Owners) => void,
): Identification<Connection> {
  /** Those whose kind may turn out to be `runtime`. */
  const unidentified = new Set<Connection>();
  /** Those of them for the next lookup. */
  const queued = new Set<Connection>();

  const lookUp = async (connections: readonly Connection[]): Promise<void> => {
    connections.forEach((connection) => queued.delete(connection));
    const owners = await runtimeSockets.find(connections.map(({ socket }) => socket));
    for (const connection of connections) {
      unidentified.delete(connection);
      const owner = owners.get(connection.socket);
      if (owner !== undefined) {
        connection.kind = "runtime";
      }
      if (typeof owner === "number") {
        connection.runtimeProcess = owner;
      }
    }
    onIdentified(connections, owners);
  };

  const identifyAll = async (): Promise<void> => {
    if (queued.size > 0) {
      await lookUp([...queued]);
    }
  };

  return {
    track(connection) {
      const isPossible = runtimeSockets.isPossible(connection.remoteAddress);
      if (isPossible) {
        unidentified.add(connection);
        queued.add(connection);
        if (queued.size >= connectionsPerSource / 2) {
          void identifyAll();
        }
      }
      return isPossible;
    },
    async identify(connection) {
      if (unidentified.has(connection)) {
        await lookUp([connection]);
      }
    },
    identifyAll,
    forget(connection) {
      queued.delete(connection);
      if (unidentified.delete(connection)) {
        // A closed connection can't be identified any more, so it counts as one of the runtime. Nobody waits for its response.
        connection.kind = "runtime";
      }
    },
  };
}
