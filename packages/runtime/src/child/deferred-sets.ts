/**
 * Those of Node-RED's own sets of nodes that load packages, by name, with the types that they register. Until one of its types is needed,
 * a set is registered without being loaded: together they take a third of the time of a start. All others have effects when they are
 * loaded, such as routes and settings, or take no time. That of HTTP-in nodes has one with CORS, and is loaded then.
 */
export const deferrableSets: Readonly<Record<string, readonly string[]>> = {
  httpin: ["http in", "http response"],
  httprequest: ["http request"],
  mqtt: ["mqtt-broker", "mqtt in", "mqtt out"],
  tcpin: ["tcp in", "tcp out", "tcp request"],
  websocket: ["websocket-listener", "websocket-client", "websocket in", "websocket out"],
  CSV: ["csv"],
  HTML: ["html"],
  JSON: ["json"],
  XML: ["xml"],
  YAML: ["yaml"],
  exec: ["exec"],
  file: ["file", "file in"],
  trigger: ["trigger"],
  watch: ["watch"],
};

/** A set of nodes, as the flow runtime's registry keeps it. */
export type RegisteredSet = {
  readonly id: string;
  readonly name: string;
  readonly enabled: boolean;
  /** Those that it has registered. */
  readonly types: string[];
  /** Why it could not be loaded. */
  err?: unknown;
};

/** Undocumented: the part of the flow runtime that has the constructors of types. */
type Registry = { get: (type: string) => unknown };

/** Undocumented: the functions by which modules register types, and subflows as types. */
export type TypeRegistration = {
  registerType: (set: string, type: string, ...others: unknown[]) => void;
  registerSubflow: (set: string, subflow: unknown) => void;
};

type ModuleSubflow = {
  readonly meta?: { readonly type?: unknown } | undefined;
  readonly flow?: readonly ({ readonly type?: unknown } | undefined)[];
};

/** The function that a file of a set exports. It registers types, possibly asynchronously. */
type Register = (red: unknown) => unknown;

/** The sets of nodes that are not loaded yet. */
export class DeferredSets {
  readonly #loads = new Map<string, () => void>();
  /** Those that are being loaded. */
  readonly #loading = new Set<Promise<void>>();
  readonly #isRegistered: (type: string) => boolean;
  readonly #warn: (message: string) => void;

  /** Loads sets also when the registry is asked for their types. `warn` is called with the reason if a set can't be loaded. */
  constructor(registry: Registry, warn: (message: string) => void) {
    const { get } = registry;
    this.#isRegistered = (type) => Boolean(get(type));
    this.#warn = warn;
    registry.get = (type) => {
      this.load(type);
      return get(type);
    };
  }

  /** Loads sets before an added module registers a type of theirs, which fails then, or a subflow with nodes of them. */
  follow(registration: TypeRegistration): void {
    const { registerType, registerSubflow } = registration;
    registration.registerType = (set, type, ...others) => {
      this.load(type);
      registerType(set, type, ...others);
    };
    registration.registerSubflow = (set, subflow) => {
      const { meta, flow = [] } = Object(subflow) as ModuleSubflow;
      [meta, ...flow].forEach((each) => this.load(String(each?.type)));
      registerSubflow(set, subflow);
    };
  }

  /** Returns what the flow runtime may call instead of what `read` returns; undefined if it can't be deferred. */
  defer(set: RegisteredSet, read: () => unknown): ((red: unknown) => void) | undefined {
    const types = Object.hasOwn(deferrableSets, set.name) ? (deferrableSets[set.name] ?? []) : [];
    // The set fails if a plugin has one of its types.
    if (types.length === 0 || types.some(this.#isRegistered)) {
      return undefined;
    }
    return (red) => {
      set.types.push(...types);
      const load = (): void => this.#load(set, types, () => (read() as Register)(red));
      types.forEach((type) => this.#loads.set(type, load));
    };
  }

  /** Loads the set that has this type, if it is enabled and not loaded yet. */
  load(type: string): void {
    this.#loads.get(type)?.();
  }

  /** Resolves when all sets that are being loaded have registered their types, or have failed. */
  async loaded(): Promise<void> {
    await Promise.all(this.#loading);
  }

  #load(set: RegisteredSet, types: readonly string[], register: () => unknown): void {
    if (!set.enabled) {
      return;
    }
    types.forEach((type) => this.#loads.delete(type));
    const fail = (error: unknown): void => {
      set.err = error;
      set.types.splice(0);
      this.#warn(`[${set.id}] ${String(error)}`);
    };
    try {
      const registered = register();
      if (registered instanceof Promise) {
        const loading = registered.then(() => {}, fail).finally(() => this.#loading.delete(loading));
        this.#loading.add(loading);
      }
    } catch (error) {
      fail(error);
    }
  }
}
