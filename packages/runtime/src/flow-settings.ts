import type { SecureVersion } from "node:tls";

// What of Node-RED's settings.js is configured, as it is sent to the runtime process.

/**
 * The stores of context by name, in the form of Node-RED's `contextStorage`: the entry `default`, or the first one if there is none, is
 * the default store. `default` may also be the name of another entry. Without entries, context is in memory, and removed with its node.
 */
export type ContextStorage = Readonly<Record<string, ContextStoreOptions | string>>;

/** `localfilesystem` keeps values in files of the runtime's directory, in the folder `base`; `database` in the store of the service. */
export type ContextStoreOptions =
  | { readonly module: "memory" }
  | { readonly module: "database"; readonly config: { readonly flushInterval: number } }
  | {
      readonly module: "localfilesystem";
      readonly config: {
        readonly base: string;
        /** True if values are in memory too, without which flows can't read them synchronously. */
        readonly cache: boolean;
        /** How long changed values may be in memory only, in seconds. */
        readonly flushInterval: number;
      };
    };

/** A user of the port of HTTP-in nodes, with an argon2id or bcrypt hash of the password. */
export type FlowUser = { readonly username: string; readonly password: string };

/** Web pages of other origins that may read responses. */
export type FlowCors = {
  /** `*`: all. */
  readonly origins: readonly string[];
  readonly methods: readonly string[];
  /** Absent: those that a request asks for. */
  readonly allowedHeaders?: readonly string[] | undefined;
  readonly exposedHeaders?: readonly string[] | undefined;
  readonly credentials: boolean;
  readonly maxAgeSeconds?: number | undefined;
};

/** A folder whose files are served below a path. */
type StaticFolder = {
  readonly path: string;
  readonly root: string;
  readonly maxAgeSeconds: number;
  readonly cors?: FlowCors | undefined;
};

/** The port of HTTP-in nodes. */
export type FlowHttp = {
  /** The path below which HTTP-in nodes and those of dashboards are served. */
  readonly root: string;
  /** Whom requests below `root`, and of WebSockets, are accepted from. Absent: everyone. */
  readonly auth?: FlowUser | undefined;
  /** Of HTTP-in nodes. */
  readonly cors?: FlowCors | undefined;
  readonly static: readonly StaticFolder[];
  /** Whom requests for files are accepted from. Absent: everyone. */
  readonly staticAuth?: FlowUser | undefined;
};

/** A certificate with its chain and key, in PEM format. */
export type Certificate = { readonly cert: string; readonly key: string; readonly minVersion: SecureVersion };

/** The settings that the runtime process gets. */
export type FlowSettings = {
  readonly contextStorage: ContextStorage;
  readonly http: FlowHttp;
  /** Values of the global context that flows find when they start, as JSON. */
  readonly globalContext: Readonly<Record<string, unknown>>;
  /** The settings that nodes read from `RED.settings`, as JSON, under Node-RED's names. */
  readonly nodeSettings: Readonly<Record<string, unknown>>;
};

export const defaultFlowSettings: FlowSettings = {
  contextStorage: {},
  http: { root: "/", static: [] },
  globalContext: {},
  nodeSettings: {},
};
