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
    };
    log: { _(key: string): string };
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
