// The parts of Node-RED's packages that this project uses. They have no type declarations.

declare module "@node-red/util" {
  export type RuntimeEvent = {
    readonly id: string;
    readonly payload?: {
      readonly state?: string;
      readonly error?: string;
      readonly types?: readonly string[];
      readonly modules?: readonly { readonly module: string; readonly error: string }[];
    };
  };

  const util: {
    init(settings: object): void;
    events: {
      on(event: "runtime-event", listener: (event: RuntimeEvent) => void): void;
      /** After the flows of a deployment were stopped. Not emitted if a node type or module is missing. */
      on(event: "flows:starting", listener: () => void): void;
      /** A node has set its status, or was removed, without one. */
      on(event: "node-status", listener: (event: { readonly id: unknown; readonly status?: unknown }) => void): void;
    };
    hooks: {
      /** Called before each message that a node receives, which it would hold up if it threw. */
      add(
        hook: "onReceive.flowgate",
        listener: (event: { readonly destination: { readonly id: string } }) => void,
      ): void;
      /** Called before each message that a node sends to another is delivered, after it was copied if it has to be. */
      add(
        hook: "preDeliver.flowgate",
        listener: (event: { readonly source: { readonly node: unknown }; readonly msg: object }) => void,
      ): void;
    };
    log: {
      _(key: string): string;
      /** Records have levels from 10 (fatal) to 60 (trace); those of nodes have an id. */
      addHandler(handler: {
        emit(event: "log", record: { readonly level: number; readonly id?: unknown; readonly msg?: unknown }): void;
      }): void;
    };
    util: {
      /** Parses a property expression. Throws if it is not valid. */
      normalisePropertyExpression(expression: string): readonly (string | number)[];
    };
  };
  export default util;
}

declare module "@node-red/runtime" {
  import type { RequestListener, Server } from "node:http";

  const runtime: {
    init(settings: object, server: Server): void;
    start(): Promise<void>;
    stop(): Promise<void>;
    httpNode: RequestListener;
    comms: {
      /** Adds a connection as that of an editor. It receives every topic. */
      addConnection(options: {
        client: { readonly session: string; send(topic: string, data: unknown): void };
      }): Promise<void>;
    };
    nodes: {
      /** The modules' files, which each define node types. `err` is why a file was not loaded. */
      getNodeList(
        options: object,
      ): Promise<readonly { readonly types: readonly string[]; readonly enabled: boolean; readonly err?: unknown }[]>;
    };
    flows: {
      /** Resolves before the flows are started, without a `rev` if the previous ones could not be stopped. */
      setFlows(deployment: {
        flows?: { flows: object[]; credentials: object };
        deploymentType: string;
      }): Promise<{ rev: string | undefined }>;
    };
  };
  export default runtime;
}
