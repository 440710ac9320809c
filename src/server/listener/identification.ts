import type { AcceptedConnection } from "./accepted-connection.ts";
import type { ListenerOptions, RuntimeSockets } from "./options.ts";

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
  /** Those of them that no lookup covers yet. */
  const unsought = new Set<Connection>();

  const lookUp = async (connections: readonly Connection[]): Promise<void> => {
    connections.forEach((connection) => unsought.delete(connection));
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
    if (unsought.size > 0) {
      await lookUp([...unsought]);
    }
  };

  return {
    track(connection) {
      const isPossible = runtimeSockets.isPossible(connection.remoteAddress);
      if (isPossible) {
        unidentified.add(connection);
        unsought.add(connection);
        if (unsought.size >= connectionsPerSource / 2) {
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
      unsought.delete(connection);
      if (unidentified.delete(connection)) {
        // Nobody waits for a response, and who did can't be found any more.
        connection.kind = "runtime";
      }
    },
  };
}
