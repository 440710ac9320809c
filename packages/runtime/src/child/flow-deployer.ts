import type flowUtil from "@node-red/util";
import type { RuntimeEvent } from "@node-red/util";
import type { FlowNode } from "@flowgate/flows";
import { splitSetId } from "../modules/disabled.ts";
import type { CredentialEntries, Deploy, FlowsDeployed, LogEntry, StoredSettings } from "../messages.ts";
import type { NodeRed } from "./node-red.ts";
import type { NodeWrites } from "./node-writes.ts";
import { type StartFailures, describeNode, watchStartFailures } from "./start-failures.ts";

const maxFailedNodes = 10;

/** Gives deployments to the flow runtime, one at a time, and finds out how they end. */
export class FlowDeployer {
  readonly #runtime: NodeRed["runtime"];
  readonly #getNode: NodeRed["getNode"];
  readonly #nextEvent: ReturnType<typeof createEventWaiter>;
  readonly #startFailures: StartFailures;
  readonly #storage: FlowStorage;
  readonly #writes: NodeWrites;
  /** The running nodes that have logged an error while they were started, by id. Their messages may contain secrets. */
  readonly #failedNodes = new Map<string, string>();
  /** True if an error of this node is one of its start. */
  #isStarting = (_id: string): boolean => false;
  /** Called when a deployment has stopped what it stops, and before it starts nodes. */
  #onStart = (): void => {};
  readonly #onGone: (id: string) => void;
  /** The trace context of the deployment in progress. */
  #traceparent: string | undefined;

  /**
   * `onGone`: called with nodes that could not be started, when the next deployment starts nodes. They are never closed. Must be created before
   * modules are loaded, see `watchStartFailures`.
   */
  constructor({ util, runtime, getNode, startParts }: NodeRed, writes: NodeWrites, onGone: (id: string) => void) {
    this.#startFailures = watchStartFailures(startParts);
    this.#onGone = onGone;
    this.#writes = writes;
    this.#storage = createFlowStorage(writes);
    this.#runtime = runtime;
    this.#getNode = getNode;
    this.#nextEvent = createEventWaiter(util);
    util.events.on("flows:starting", () => this.#onStart());
  }

  /** The runtime's storage module. */
  get storageModule(): object {
    return this.#storage.module;
  }

  /** Loads the settings that modules have stored, and keeps these sets of nodes from being loaded. Must be called before the start. */
  configure(stored: StoredSettings, disabledSets: readonly string[]): void {
    this.#writes.loadSettings(stored, disabledSets.length === 0 ? {} : { nodes: toNodeSettings(disabledSets) });
  }

  /** Starts the runtime without flows. It would overwrite an earlier deployment with its initial load. */
  async start(): Promise<void> {
    const loaded = this.#nextEvent(isStartResult);
    await this.#runtime.start();
    await loaded;
  }

  /** Records an error of a node that is being started, and adds the trace context of the deployment in progress. */
  annotate(entry: LogEntry): LogEntry {
    const { level, nodeId } = entry;
    if (level === "error" && nodeId !== undefined && this.#isStarting(nodeId)) {
      this.#failedNodes.set(nodeId, describeNode(entry));
    }
    return this.#traceparent === undefined ? entry : { ...entry, traceparent: this.#traceparent };
  }

  /** Resolves when all nodes are started, or the start has failed. */
  async deploy(message: Deploy, nodes: readonly FlowNode[]): Promise<Omit<FlowsDeployed, "kind" | "id">> {
    this.#traceparent = message.traceparent;
    const result = await this.#setFlows(message, nodes);
    this.#traceparent = undefined;
    return result;
  }

  async #setFlows(message: Deploy, nodes: readonly FlowNode[]): Promise<Omit<FlowsDeployed, "kind" | "id">> {
    const { id, credentialsChanged: changed } = message;
    const globals = new Set(nodes.filter(({ type }) => type === "global-config").map((node) => node.id));
    const credentials = toCredentialsObject(message.credentials, changed, globals);
    this.#writes.deliver(id, credentials, { changed, globals });
    let failure: string | undefined;
    let startFailure: string | undefined;
    let missingTypes: readonly string[] | undefined;
    let lacksModules: true | undefined;
    // The runtime emits `runtime-deploy` once per deployment, when all nodes are started or the start has failed.
    const finished = this.#nextEvent((event) => {
      if (event.id === "runtime-state" && event.payload?.error !== undefined) {
        const unreadable = event.payload.modules?.length === 0 ? this.#startFailures.explainModules(nodes) : undefined;
        failure = unreadable ?? describeFailure(event);
        missingTypes = event.payload.types;
        if (event.payload.error === "missing-modules" && unreadable === undefined) {
          lacksModules = true;
        }
      }
      return event.id === "runtime-deploy";
    });
    this.#startFailures.onFailure((message) => {
      startFailure ??= message;
    });
    this.#onStart = () => this.#expectStart(nodes);
    this.#storage.set(nodes, credentials);
    try {
      const { rev } = await this.#runtime.flows.setFlows(
        message.type === "reload"
          ? { deploymentType: "reload" }
          : { flows: { flows: markChangedCredentials(nodes, message), credentials }, deploymentType: message.type },
      );
      if (rev === undefined) {
        return { failure: "the runtime could not stop the flows that ran before" };
      }
    } catch (error) {
      return { failure: error instanceof Error ? error.message : String(error), rejected: true };
    }
    await finished;
    this.#isStarting = () => false;
    // It can be the failure of one tab, while others run.
    const isPartial = failure === undefined && nodes.some(({ id }) => this.#isRunning(id));
    failure ??= isPartial ? undefined : startFailure;
    return {
      ...(failure !== undefined && { failure }),
      ...(missingTypes !== undefined && { missingTypes }),
      ...(lacksModules !== undefined && { lacksModules }),
      ...(isPartial && startFailure !== undefined && { notStarted: startFailure }),
      ...(this.#failedNodes.size > 0 && { failedNodes: [...this.#failedNodes.values()].slice(0, maxFailedNodes) }),
    };
  }

  /** Nodes that run now are not restarted by this deployment. */
  #expectStart(nodes: readonly FlowNode[]): void {
    const others = new Set(nodes.map(({ id }) => id).filter((id) => this.#isRunning(id)));
    this.#isStarting = (id) => !others.has(id);
    for (const id of this.#failedNodes.keys()) {
      if (!this.#isRunning(id)) {
        this.#failedNodes.delete(id);
        this.#onGone(id);
      }
    }
  }

  #isRunning(id: string): boolean {
    return this.#getNode(id) !== null;
  }
}

type CredentialsObject = Record<string, object>;

/**
 * Returns the flows with empty `credentials` on each node whose credentials changed. Without this property the runtime
 * does not restart such a node in a `nodes` or `flows` deployment, and it keeps its previous credentials.
 */
function markChangedCredentials(
  flows: readonly FlowNode[],
  { type, credentialsChanged }: Pick<Deploy, "type" | "credentialsChanged">,
): object[] {
  if (type === "full" || credentialsChanged.length === 0) {
    return [...flows];
  }
  const ids = new Set(credentialsChanged);
  return flows.map((node) => (ids.has(node.id) ? { ...node, credentials: {} } : node));
}

/**
 * Returns the credentials by node id. Removed ones are empty objects, because the runtime keeps those that are absent. Those of
 * `global-config` nodes are in `map`, where the runtime reads them.
 */
function toCredentialsObject(
  entries: CredentialEntries,
  changed: readonly string[],
  globals: ReadonlySet<string>,
): CredentialsObject {
  return Object.fromEntries([
    ...changed.map((id) => [id, {}] as const),
    ...entries.map(([id, entry]) => {
      const set = Object.fromEntries(entry);
      return [id, globals.has(id) ? { map: set } : set] as const;
    }),
  ]);
}

/** As the runtime stores which sets of nodes are disabled (`saveNodeList` in @node-red/registry). */
function toNodeSettings(ids: readonly string[]): object {
  const modules = Map.groupBy(ids, (id) => splitSetId(id).module);
  // Without its own, it takes this for an older format.
  return Object.fromEntries([
    ["node-red", { name: "node-red", nodes: {} }],
    ...Array.from(modules, ([name, setIds]) => {
      const sets = setIds.flatMap((id) => splitSetId(id).set ?? []);
      const nodes = sets.map((set) => [set, { name: set, module: name, types: [], enabled: false }] as const);
      return [name, { name, nodes: Object.fromEntries(nodes) }] as const;
    }),
  ]);
}

type FlowStorage = {
  /** The runtime's storage module. */
  readonly module: object;
  set(flows: readonly object[], credentials: CredentialsObject): void;
};

/**
 * Creates an in-memory storage module for the flow runtime, without flows at first. The runtime reads it for a `reload`; the
 * parent stores the flows.
 */
function createFlowStorage(writes: NodeWrites): FlowStorage {
  let stored: { readonly flows: readonly object[]; readonly credentials: CredentialsObject } = {
    flows: [],
    credentials: {},
  };

  return {
    // Must be a plain object: the runtime tests for own properties.
    module: {
      init: async () => {},
      getFlows: async () => stored.flows,
      saveFlows: async () => {},
      getCredentials: async () => stored.credentials,
      // Those of deployments. What nodes change is stored at once, see `NodeWrites`.
      saveCredentials: async () => {},
      getSettings: async () => writes.settings,
      saveSettings: (settings: object) => writes.saveSettings(settings),
      getSessions: async () => ({}),
      saveSessions: async () => {},
      getLibraryEntry: async () => [],
      saveLibraryEntry: async () => {},
    },
    set(flows, credentials) {
      stored = { flows, credentials };
    },
  };
}

/** Returns a function that resolves with the next runtime event that matches. Each event is passed to `matches` once. */
function createEventWaiter(util: typeof flowUtil): (matches: (event: RuntimeEvent) => boolean) => Promise<void> {
  const listeners = new Set<(event: RuntimeEvent) => void>();
  util.events.on("runtime-event", (event) => {
    for (const listener of listeners) {
      listener(event);
    }
  });

  return async (matches) => {
    const { promise, resolve } = Promise.withResolvers<void>();
    const listener = (event: RuntimeEvent) => {
      if (!matches(event)) {
        return;
      }
      listeners.delete(listener);
      resolve();
    };
    listeners.add(listener);
    await promise;
  };
}

/** True if the event reports that the runtime has loaded its flows, or has failed to. */
function isStartResult({ id, payload }: RuntimeEvent): boolean {
  return id === "runtime-state" && (payload?.state === "start" || payload?.error !== undefined);
}

function describeFailure({ payload }: RuntimeEvent): string {
  switch (payload?.error) {
    case "missing-types":
      return `missing node types: ${payload.types?.join(", ")}`;
    case "missing-modules":
      return describeModules(payload.modules ?? []);
    default:
      return String(payload?.error);
  }
}

function describeModules(modules: readonly { readonly module: string; readonly error: string }[]): string {
  const { refused = [], missing = [] } = Object.groupBy(modules, ({ error }) =>
    error === "module_not_allowed" ? "refused" : "missing",
  );
  const list = (some: typeof modules): string => some.map(({ module }) => module).join(", ");
  return [
    ...(missing.length === 0 ? [] : [`missing modules: ${list(missing)}`]),
    ...(refused.length === 0 ? [] : [`modules.allow and modules.deny do not permit the modules: ${list(refused)}`]),
  ].join("; ");
}
