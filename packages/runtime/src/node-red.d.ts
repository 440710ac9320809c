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
    /** True if editors that connect later receive it too. */
    readonly retain?: boolean;
  };

  const util: {
    init(settings: object): void;
    events: {
      on(event: "runtime-event", listener: (event: RuntimeEvent) => void): void;
      /** A module has published something for editors, who receive it by topic. */
      on(
        event: "comms",
        listener: (event: { readonly topic?: unknown; readonly data?: unknown; readonly retain?: unknown }) => void,
      ): void;
      /** After the flows of a deployment were stopped. Not emitted if a node type or module is missing. */
      on(event: "flows:starting", listener: () => void): void;
      on(event: "type-registered", listener: (type: string) => void): void;
      listeners(event: "type-registered"): ((type: string) => void)[];
      removeAllListeners(event: "type-registered"): void;
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
      readonly ERROR: number;
      log(record: { level: number; id?: string; type?: string; name?: string | undefined; msg: unknown }): void;
      /** Records have levels from 10 (fatal) to 60 (trace); those of nodes have an id. */
      addHandler(handler: {
        emit(event: "log", record: { readonly level: number; readonly id?: unknown; readonly msg?: unknown }): void;
      }): void;
    };
    util: {
      /** Parses a property expression. Throws if it is not valid. */
      normalisePropertyExpression(expression: string): readonly (string | number)[];
      /** Encodes the value of a debug message as the editor receives it. */
      encodeObject(
        message: { readonly msg: unknown },
        options: { readonly maxLength: number },
      ): { readonly format: string; readonly msg: unknown };
    };
  };
  export default util;
}

declare module "@node-red/runtime" {
  import type { IncomingMessage, RequestListener, Server, ServerResponse } from "node:http";

  const runtime: {
    /** `adminApi` has the checks of permissions that nodes use. Without it, these permit everything. */
    init(settings: object, server: Server, adminApi?: object): void;
    start(): Promise<void>;
    stop(): Promise<void>;
    httpNode: RequestListener;
    /** Has the routes that nodes register for the editor. */
    httpAdmin: ((request: IncomingMessage, response: ServerResponse, next: (error?: unknown) => void) => void) & {
      /** Sets a setting of Express. */
      set(name: string, value: unknown): void;
    };
    comms: {
      /** Adds a connection as that of an editor. It receives every topic. */
      addConnection(options: {
        client: { readonly session: string; send(topic: string, data: unknown): void };
      }): Promise<void>;
    };
    context: {
      /** Values as the editor shows them: of one key, or of all in a scope, by store. */
      getValue(options: {
        scope: string;
        id?: string | undefined;
        key?: string | undefined;
        store?: string | undefined;
        keysOnly?: boolean | undefined;
      }): Promise<object>;
    };
    diagnostics: { get(options: { scope: string }): Promise<object> };
    /** Undocumented. */
    _: {
      nodes: { listContextStores(): { readonly default: string; readonly stores: readonly string[] } };
      settings: { exportNodeSettings(settings: object): object };
      plugins: { exportPluginSettings(settings: object): object };
    };
    nodes: {
      /** The modules' files, which each define node types. `err` is why a file was not loaded. */
      getNodeList(
        options: object,
      ): Promise<readonly { readonly types: readonly string[]; readonly enabled: boolean; readonly err?: unknown }[]>;
    };
    flows: {
      /** Without passwords, of which it returns only whether there is one. */
      getNodeCredentials(options: { type: string; id: string }): Promise<object>;
      /** Resolves before the flows are started, without a `rev` if the previous ones could not be stopped. */
      setFlows(deployment: {
        flows?: { flows: object[]; credentials: object };
        deploymentType: string;
      }): Promise<{ rev: string | undefined }>;
    };
  };
  export default runtime;
}
