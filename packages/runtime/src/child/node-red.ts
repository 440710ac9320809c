import type { IncomingMessage, ServerResponse } from "node:http";
import { createRequire } from "node:module";
import { dirname } from "node:path";
import type { FlowCors } from "../flow-settings.ts";
import type { Initialize } from "../messages.ts";
import type { ModuleLists } from "@flowgate/base/module-rules";
import type flowRuntime from "@node-red/runtime";
import type flowUtil from "@node-red/util";
import type { NodeRedContextStore } from "./context-database.ts";
import type { ContextModules } from "./context-stores.ts";
import type { FlowNode } from "@flowgate/flows";
import { DeferredSets, type TypeRegistration } from "./deferred-sets.ts";
import type { RuntimeLog } from "./log.ts";
import { patchNodeRed } from "./patches.ts";
import type { StartParts } from "./start-failures.ts";

/** A node that runs. */
export type RunningNode = {
  readonly id: string;
  readonly type: string;
  /** The id of its tab, or of the instance of its subflow. */
  readonly z?: string;
  context(): ScopeContext;
};

/** Values that flows keep, in one scope. Keys are property expressions. */
export type ScopeContext = {
  get(key: string, store: string, callback: (error: unknown, value: unknown) => void): void;
  /** `undefined` deletes. */
  set(key: string, value: unknown, store: string, callback: (error: unknown) => void): void;
  keys(store: string, callback: (error: unknown, keys: readonly string[] | undefined) => void): void;
};

/** A function of Express. */
export type ExpressHandler = (request: IncomingMessage, response: ServerResponse, next: () => void) => void;

type ExpressApp = ExpressHandler & {
  (request: IncomingMessage, response: ServerResponse): void;
  set(name: string, value: unknown): void;
  use(path: string, ...handlers: readonly ExpressHandler[]): void;
};

type Express = (() => ExpressApp) & {
  static(path: string, options: { readonly maxAge: number }): ExpressHandler;
  json(options: { readonly limit: string }): BodyParser;
  urlencoded(options: { readonly limit: string; readonly extended: boolean }): BodyParser;
};

/** Puts the body into the request. */
type BodyParser = (request: IncomingMessage, response: ServerResponse, next: (error?: unknown) => void) => void;

/** A set of nodes, which has the id `module/set`. `err` is why it is not loaded. */
type LoadedSet = {
  readonly id: string;
  readonly types: readonly string[];
  readonly enabled: boolean;
  readonly err?: Error | string;
};

export type NodeRed = {
  readonly util: typeof flowUtil;
  readonly runtime: typeof flowRuntime;
  /** Undocumented: the modules that are loaded. */
  readonly registry: {
    /** The constructor of a type, or what stands for it; null: there is none. */
    get: (type: string) => unknown;
    /** Null: it is not loaded. */
    getModuleInfo(name: string): { readonly nodes: readonly LoadedSet[] } | null;
    /** The modules that it knows, by name. */
    getModuleList(): Record<string, { readonly name: string; readonly nodes: object; readonly plugins?: object }>;
    getNodeList(filter?: (set: LoadedSet) => boolean): LoadedSet[];
    /** Rejects if the lists do not permit the module, or another one is missing whose nodes its nodes need. */
    addModule(name: string): Promise<unknown>;
    /** Also loads the set if it was not loaded yet. */
    enableNode(id: string): Promise<LoadedSet>;
    disableNode(id: string): Promise<LoadedSet>;
  };
  /** Loads those of the runtime's own sets of nodes that have the types and are not loaded yet. Must be called before flows are set. */
  readonly loadTypes: (types: readonly string[]) => Promise<void>;
  /**
   * Keeps the runtime from starting flows that wait for types when these are registered: a deployment does that, so that its result is known.
   * Disposing ends that.
   */
  readonly holdWaitingFlows: () => Disposable;
  /** Undocumented: whether lists permit a version of a module. */
  readonly permitsModule: (lists: ModuleLists, name: string, version: unknown) => boolean;
  /** Replaces the lists of the modules that function nodes may load. */
  readonly permitFunctionModules: (lists: ModuleLists) => void;
  /** Undocumented: a node that runs; null: none does. */
  readonly getNode: (id: string) => RunningNode | null;
  /** Undocumented: the configurations of all nodes and tabs. */
  readonly eachNode: (visit: (node: FlowNode) => void) => void;
  /** Undocumented: creates the context of a scope if there is none. */
  readonly getContext: (id: string) => ScopeContext;
  readonly listContextStores: () => { readonly default: string; readonly stores: readonly string[] };
  /** Undocumented: the store of a runtime without configured ones; undefined until the runtime is initialized. */
  readonly memoryContext: () => NodeRedContextStore | undefined;
  readonly contextModules: ContextModules;
  /** The runtime's own version of Express. */
  readonly loadExpress: () => Express;
  readonly loadCors: () => (options: object) => ExpressHandler;
  /** Undocumented methods of the classes of nodes, and of tabs and subflow instances. */
  readonly Node: {
    readonly prototype: {
      _emitInput: (this: RunningNode, message: unknown) => void;
      _complete: (this: RunningNode, message: unknown, failure?: unknown) => void;
      error: (this: RunningNode, ...values: unknown[]) => void;
      close: (this: RunningNode, removed: unknown) => unknown;
    };
  };
  readonly Flow: {
    readonly prototype: {
      /** Returns whether a catch node receives the error. */
      handleError: (this: object, node: RunningNode, error: unknown, ...others: unknown[]) => boolean;
    };
  };
  readonly startParts: StartParts;
};

/** Undocumented: what modules call to store credentials. */
export type CredentialNodes = {
  addCredentials: (id: unknown, credentials: unknown) => Promise<void>;
  deleteCredentials: (id: unknown) => unknown;
};

/** Undocumented: what modules call to store settings. */
export type StoredSettingsModule = Record<"set" | "delete", (...values: unknown[]) => Promise<void>>;

type LoadOptions = {
  /** True if sets of nodes may be loaded when a type of them is needed. */
  readonly defersSets: boolean;
  /** Called before modules are loaded, with what they call. */
  readonly followWrites: (nodes: CredentialNodes, settings: StoredSettingsModule) => void;
  /** Called with what can't be loaded, or is slower than it could be, see `patchNodeRed`. */
  readonly warn: (message: string) => void;
};

/** Loads the flow runtime. Must be called after `hardenSandbox`. */
export function loadNodeRed({ defersSets, followWrites, warn }: LoadOptions): NodeRed {
  using _ = patchNodeRed(warn);
  // An import would be evaluated before the module that calls this function.
  const require = createRequire(import.meta.url);
  const loadOf = (name: string, from: string): unknown => createRequire(require.resolve(from))(name);
  const registry = loadOf("@node-red/registry", "@node-red/runtime") as NodeRed["registry"];
  const lists = loadOf("@node-red/registry/lib/util", "@node-red/runtime") as ListsPart & {
    deferSet?: DeferredSets["defer"];
  };
  const sets = new DeferredSets(registry, warn);
  if (defersSets) {
    // Called by the patched runtime.
    lists.deferSet = (set, read) => sets.defer(set, read);
  }
  const memoryContext = noticeMemoryContext(require);
  const util = require("@node-red/util") as NodeRed["util"];
  const runtime = require("@node-red/runtime") as NodeRed["runtime"];
  const nodes = require("@node-red/runtime/lib/nodes") as NodeRed & TypeRegistration & CredentialNodes;
  followWrites(nodes, require("@node-red/runtime/lib/settings") as StoredSettingsModule);
  const { eachNode, getContext, listContextStores, getNode: findNode } = nodes;
  sets.follow(nodes);
  const getNode = (id: string): RunningNode | null => {
    const node: Partial<RunningNode> | null | undefined = findNode(id);
    // It finds properties of a prototype too.
    return typeof node?.type === "string" ? (node as RunningNode) : null;
  };
  const Node = require("@node-red/runtime/lib/nodes/Node") as NodeRed["Node"];
  const { Flow } = require("@node-red/runtime/lib/flows/Flow") as Pick<NodeRed, "Flow"> & Pick<StartParts, "Flow">;
  const holdWaitingFlows = createFlowHold(util);
  const createContext = (name: string, config: object): NodeRedContextStore =>
    (require(`@node-red/runtime/lib/nodes/context/${name}`) as (config: object) => NodeRedContextStore)(config);
  const contextModules: ContextModules = {
    memory: (config) => createContext("memory", config) as ReturnType<ContextModules["memory"]>,
    localfilesystem: (config) => createContext("localfilesystem", config),
  };
  return {
    util,
    runtime,
    registry,
    async loadTypes(types) {
      using _ = holdWaitingFlows();
      types.forEach((type) => sets.load(type));
      await sets.loaded();
    },
    holdWaitingFlows,
    permitsModule: ({ allow, deny }, name, version) =>
      lists.checkModuleAllowed(name, version, lists.parseModuleList(allow), lists.parseModuleList(deny)),
    permitFunctionModules(lists) {
      const part = loadOf("@node-red/registry/lib/externalModules", "@node-red/runtime") as RegistryPart;
      part.init({ externalModules: { modules: functionModules(lists) } });
    },
    getNode,
    eachNode,
    getContext,
    listContextStores,
    memoryContext,
    contextModules,
    loadExpress: () => loadOf("express", "@node-red/runtime") as Express,
    loadCors: () => loadOf("cors", "@node-red/nodes") as ReturnType<NodeRed["loadCors"]>,
    Node,
    Flow,
    startParts: {
      Flow,
      Subflow: require("@node-red/runtime/lib/flows/Subflow") as StartParts["Subflow"],
      flowUtil: require("@node-red/runtime/lib/flows/util") as StartParts["flowUtil"],
      externalModules: loadOf(
        "@node-red/registry/lib/externalModules",
        "@node-red/runtime",
      ) as StartParts["externalModules"],
      util,
    },
  };
}

/** Only the start of flows that wait for types listens for those that are registered. */
function createFlowHold({ events }: Pick<typeof flowUtil, "events">): NodeRed["holdWaitingFlows"] {
  let holds = 0;
  let listeners: ReturnType<typeof events.listeners> = [];
  return () => {
    if (holds === 0) {
      listeners = events.listeners("type-registered");
      events.removeAllListeners("type-registered");
    }
    holds += 1;
    return {
      [Symbol.dispose]() {
        holds -= 1;
        if (holds === 0) {
          listeners.forEach((listener) => events.on("type-registered", listener));
        }
      },
    };
  };
}

/** The runtime has no list of the scopes. Returns a function that returns the store. Must be called before the runtime is loaded. */
function noticeMemoryContext(require: NodeJS.Require): NodeRed["memoryContext"] {
  let created: NodeRedContextStore | undefined;
  const path = require.resolve("@node-red/runtime/lib/nodes/context/memory");
  const create = require(path) as (config: unknown) => NodeRedContextStore;
  const module = require.cache[path];
  if (module !== undefined) {
    // Also called as a constructor.
    module.exports = function createNoticed(config: unknown): NodeRedContextStore {
      created = create(config);
      return created;
    };
  }
  return () => created;
}

type SettingsParts = {
  readonly storageModule: object;
  readonly logHandler: RuntimeLog["handle"];
  readonly contextStorage: object | undefined;
};

/** Returns the settings of a flow runtime without editor, admin API and module installation. */
export function createSettings(
  { userDir, nodeCloseTimeoutMs, logLevel, functionLists, settings }: Initialize,
  { storageModule, logHandler, contextStorage }: SettingsParts,
): object {
  const { http, globalContext, nodeSettings } = settings;
  return {
    // Those that are installed, see `loadModulesFrom`.
    functionExternalModules: true,
    ...nodeSettings,
    ...(contextStorage !== undefined && { contextStorage }),
    functionGlobalContext: globalContext,
    userDir,
    coreNodesDir: dirname(createRequire(import.meta.url).resolve("@node-red/nodes")),
    storageModule,
    // The parent encrypts credentials at rest.
    credentialSecret: false,
    httpAdminRoot: false,
    disableEditor: true,
    httpNodeRoot: http.root === "/" ? "/" : `${http.root}/`,
    ...(http.cors !== undefined && { httpNodeCors: toCorsOptions(http.cors) }),
    telemetry: { enabled: false },
    externalModules: {
      autoInstall: false,
      palette: { allowInstall: false, allowUpload: false },
      modules: functionModules(functionLists),
    },
    nodeCloseTimeout: nodeCloseTimeoutMs,
    runtimeState: { enabled: true },
    logging: { parent: { level: logLevel, audit: false, metrics: false, handler: () => logHandler } },
  };
}

/** The options of the package `cors`, which the HTTP-in node uses. */
export function toCorsOptions({ origins, maxAgeSeconds, ...others }: FlowCors): object {
  return {
    ...others,
    origin: origins.includes("*") ? "*" : origins,
    ...(maxAgeSeconds !== undefined && { maxAge: maxAgeSeconds }),
  };
}

type ListsPart = {
  parseModuleList(entries: readonly string[]): object[];
  checkModuleAllowed(name: string, version: unknown, allow: object[], deny: object[]): boolean;
};

type RegistryPart = { init: (settings: object) => void };

/**
 * Makes the runtime load added modules from `modulesDir` only, those that the lists permit, or none if it is undefined. It would look in `nodes` and `node_modules`
 * of the user folder, which flows can write. Nodes still get `userDir` as a folder for their files. Returns a function that replaces the
 * lists.
 */
export function loadModulesFrom({
  modulesDir,
  moduleLists,
}: Pick<Initialize, "modulesDir" | "moduleLists">): (lists: ModuleLists) => void {
  const load = createRequire(createRequire(import.meta.url).resolve("@node-red/runtime"));
  const palette = { ...toNodeRed(moduleLists) };
  const reload = redirect(load("@node-red/registry/lib/localfilesystem") as RegistryPart, {
    userDir: modulesDir,
    externalModules: { palette },
  });
  // Without a folder it would take the working directory.
  redirect(load("@node-red/registry/lib/externalModules") as RegistryPart, { userDir: modulesDir ?? "/dev/null" });
  return (lists) => {
    Object.assign(palette, toNodeRed(lists));
    reload();
  };
}

function functionModules(lists: ModuleLists | undefined): object {
  return { allowInstall: false, ...toNodeRed(lists) };
}

function toNodeRed({ allow, deny }: ModuleLists = { allow: ["*"], deny: [] }): object {
  return { allowList: allow, denyList: deny };
}

/** These settings are only used for the folders of modules. Returns a function that makes the part read them again. */
function redirect(part: RegistryPart, changes: Readonly<Record<string, unknown>>): () => void {
  const { init } = part;
  const properties = Object.fromEntries(Object.entries(changes).map(([name, value]) => [name, { value }]));
  let known: object = {};
  part.init = (settings) => {
    known = Object.create(settings, properties) as object;
    init(known);
  };
  return () => init(known);
}
