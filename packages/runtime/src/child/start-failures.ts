import type flowUtil from "@node-red/util";
import { type FlowNode, isJsonObject, nameOf, toKey } from "@flowgate/flows";
import type { LogEntry } from "../messages.ts";

type Definition = FlowNode & { readonly _alias?: string };
type Definitions = Readonly<Record<string, Definition>>;

/** A tab, an instance of a subflow, or what all tabs share, as the runtime runs it. */
type StartedFlow = {
  readonly TYPE: string;
  readonly flow: { readonly id?: string; readonly configs: Definitions; readonly nodes?: Definitions };
  readonly activeNodes: Readonly<Record<string, Definition>>;
  readonly subflowDef?: Definition;
  readonly subflowInstance?: Definition;
};

/** An instance of a subflow, with the copies of its nodes by the ids of these nodes. */
type StartedInstance = { readonly subflowDef: Definition; readonly node_map: Definitions; start: Start };

/** A group as the runtime runs it. */
type StartedGroup = { readonly group: Definition };

type Start = (diff?: { readonly rewired: readonly string[] }) => Promise<void>;

type CreateInstance<Others extends readonly unknown[]> = (
  ...values: [...Others, StartedFlow & { subflowInstanceNodes: Record<string, unknown> }, unknown, unknown, Definition]
) => StartedInstance;

/** Undocumented parts of the flow runtime by which it starts flows. */
export type StartParts = {
  readonly Flow: { readonly prototype: { start: Start } };
  readonly flowUtil: {
    /** Computes the values of variables. */
    evaluateEnvProperties: (owner: StartedFlow | StartedGroup, env: unknown, credentials?: object) => Promise<object>;
  };
  readonly Subflow: { create: CreateInstance<[]>; createModuleInstance: CreateInstance<[type: string]> };
  readonly externalModules: {
    /** The property of nodes of this type that lists the modules that their code loads. */
    register: (type: string, property: string) => void;
  };
  readonly util: typeof flowUtil;
};

/** An error that says what can't be started, and why. The runtime prints the stack. */
class StartError extends Error {
  constructor(message: string) {
    super(message);
    this.stack = message;
  }
}

export type StartFailures = {
  /** Sets the listener, which is called if a tab, or the configuration nodes that all tabs share, can't be started. */
  onFailure(listener: (message: string) => void): void;
  /** Why the runtime can't find out which modules the nodes need; undefined if it can. */
  explainModules(nodes: readonly FlowNode[]): string | undefined;
};

/**
 * Finds out which node and property keeps a tab or an instance of a subflow from being started: the runtime only prints its own error and continues
 * with others. For an instance it logs that as an error of the instance. Must be called before modules are loaded.
 */
export function watchStartFailures({ Flow, Subflow, flowUtil, externalModules, util }: StartParts): StartFailures {
  let notify: ((message: string) => void) | undefined;
  const moduleLists = new Map<string, string>();

  const { start } = Flow.prototype;
  Flow.prototype.start = async function startOrExplain(this: StartedFlow, diff): Promise<void> {
    try {
      await start.call(this, diff);
    } catch (error) {
      const reason = explain(this, error, diff?.rewired ?? []);
      if (this.subflowInstance !== undefined) {
        throw new StartError(reason);
      }
      const message = `${describeFlow(this)} can't be started: ${reason}`;
      notify?.(message);
      throw new StartError(message);
    }
  };

  const { evaluateEnvProperties } = flowUtil;
  flowUtil.evaluateEnvProperties = async (owner, env, credentials) => {
    try {
      return await evaluateEnvProperties(owner, env, credentials);
    } catch (error) {
      // The list can be any value with a length.
      const list = Object(env) as ArrayLike<unknown>;
      for (let index = 0; index < list.length; index++) {
        try {
          await evaluateEnvProperties(owner, [list[index]], credentials);
        } catch (cause) {
          throw new StartError(`${describeVariable(owner, env, list[index], index)}: ${reasonOf(cause)}`);
        }
      }
      throw error;
    }
  };

  const { create, createModuleInstance } = Subflow;
  Subflow.create = (...values) => createOrExplain(values, () => create(...values));
  Subflow.createModuleInstance = (type, ...values) =>
    createOrExplain(values, () => createModuleInstance(type, ...values));

  function createOrExplain(
    [parent, , , instance]: Parameters<StartParts["Subflow"]["create"]>,
    create: () => StartedInstance,
  ): StartedInstance {
    const fail = (reason: string): never => {
      const message = `the instance of the subflow can't be started: ${reason}`;
      const { id, type } = instance;
      util.log.log({ level: util.log.ERROR, id, type, name: nameOf(instance), msg: message });
      throw new StartError(`${describe(instance)}: ${message}`);
    };
    try {
      const subflow = create();
      const start = subflow.start.bind(subflow);
      subflow.start = (diff) =>
        start(diff).catch((error: unknown) => {
          const isExplained = error instanceof StartError;
          fail((isExplained ? undefined : explainPorts(subflow)) ?? reasonOf(error));
        });
      return subflow;
    } catch (error) {
      // The runtime would leave a mark there that is no node, on which its search for nodes of other tabs fails.
      delete parent.subflowInstanceNodes[instance.id];
      return fail(reasonOf(error));
    }
  }

  const { register } = externalModules;
  externalModules.register = (type, property) => {
    moduleLists.set(type, property);
    register(type, property);
  };

  return {
    onFailure(listener) {
      notify = listener;
    },
    explainModules(nodes) {
      for (const node of nodes) {
        const property = moduleLists.get(node.type);
        const list = property === undefined ? undefined : node[property];
        const index = Array.isArray(list) && !node["d"] ? list.indexOf(null) : -1;
        if (index !== -1) {
          return `${describe(node)}: ${property}[${index}]: must be a module`;
        }
      }
      return undefined;
    },
  };
}

/** Finds out which node keeps the flow from being started. */
function explain(flow: StartedFlow, error: unknown, rewired: readonly string[]): string {
  if (error instanceof StartError) {
    return error.message;
  }
  const reason = reasonOf(error);
  const id = /^Circular config node dependency detected: ([^]*)$/.exec(reason)?.[1];
  const found =
    id === undefined
      ? (explainWires(flow, rewired) ?? explainScope(flow))
      : explainReference(flow, flow.flow.configs[id]);
  return found ?? reason;
}

const notReferences: ReadonlySet<string> = new Set(["id", "wires", "_users"]);

/** The configuration node waits for another one, which may have failed. */
function explainReference({ flow, activeNodes }: StartedFlow, node: Definition | undefined): string | undefined {
  if (node === undefined) {
    return undefined;
  }
  for (const [property, value] of Object.entries(node)) {
    const key = toKey(value);
    const target = Object.hasOwn(flow.configs, key) && !notReferences.has(property) ? flow.configs[key] : undefined;
    if (target !== undefined && target["d"] !== true && !Object.hasOwn(activeNodes, key)) {
      const what = target === node ? "itself" : `${describe(target)}, which is not started or refers to it`;
      return `${describe(node)}: ${property}: refers to ${what}`;
    }
  }
  return undefined;
}

/** The runtime changes the wires of nodes that go on running, and takes them from the nodes with coordinates. */
function explainWires({ flow, activeNodes }: StartedFlow, rewired: readonly string[]): string | undefined {
  const id = rewired.find((each) => Object.hasOwn(activeNodes, each) && !Object.hasOwn(flow.nodes ?? {}, each));
  return id === undefined
    ? undefined
    : `${describe(activeNodes[id] as Definition)}: x, y: a node that ran before can't lose them: deploy the flows again`;
}

/** The runtime wires the ports of a subflow to the copies of its nodes. */
function explainPorts({ subflowDef, node_map: nodes }: StartedInstance): string | undefined {
  for (const property of ["in", "out", "status"] as const) {
    const value = subflowDef[property];
    const ports = Array.isArray(value) ? value : value ? [value] : [];
    for (const [index, port] of ports.entries()) {
      const place = `${describe(subflowDef)}: ${property}${Array.isArray(value) ? `[${index}]` : ""}`;
      const wires = isJsonObject(port) ? port["wires"] : undefined;
      if (!Array.isArray(wires)) {
        return `${place}: must have wires`;
      }
      for (const [at, wire] of wires.entries()) {
        const { id, port: output } = Object(wire) as Partial<FlowNode>;
        if (property === "in" && !Object.hasOwn(nodes, toKey(id))) {
          return `${place}.wires[${at}].id: there is no node ${JSON.stringify(id)} in the subflow`;
        }
        if (
          property !== "in" &&
          id === subflowDef.id &&
          !Object.hasOwn(Object(subflowDef["in"]) as object, toKey(output))
        ) {
          return `${place}.wires[${at}].port: the subflow has no input ${JSON.stringify(output)}`;
        }
      }
    }
  }
  return undefined;
}

/** All nodes run, but errors and statuses are not passed to others. */
function explainScope({ activeNodes }: StartedFlow): string | undefined {
  const isUnreadable = ({ type, scope }: Definition): boolean =>
    type === "complete" &&
    Boolean(scope) &&
    !(Array.isArray(scope) && scope.every((each) => !(toKey(each) in Object.prototype)));
  const node = Object.values(activeNodes).find(isUnreadable);
  return node && `${describe(node)}: scope: must be an array of node ids`;
}

/** The list of an instance has the variables of its subflow too. */
function describeVariable(owner: StartedFlow | StartedGroup, env: unknown, variable: unknown, index: number): string {
  const definitions =
    "group" in owner
      ? [owner.group]
      : [owner.subflowInstance, owner.subflowDef, ...Object.values(owner.flow.configs)].filter(
          (each) => each !== undefined,
        );
  const isOwn = ({ env: own }: Definition): boolean => Array.isArray(own) && (own as unknown[]).includes(variable);
  const definition = definitions.find((each) => each["env"] === env) ?? definitions.find(isOwn);
  const list = definition?.["env"];
  const at = Array.isArray(list) ? (list as unknown[]).indexOf(variable) : index;
  const name = isJsonObject(variable as never) ? ` (${JSON.stringify((variable as { name?: unknown }).name)})` : "";
  return `${definition === undefined ? "" : `${describe(definition)}: `}env[${at}]${name}`;
}

/** For messages. */
export function describeNode({
  nodeId = "",
  nodeType = "node",
  nodeName,
}: Pick<LogEntry, "nodeId" | "nodeType" | "nodeName">): string {
  return nodeName === undefined ? `${nodeType} ${nodeId}` : `${nodeType} ${JSON.stringify(nodeName)} (${nodeId})`;
}

function describeFlow({ flow }: StartedFlow): string {
  const tab = flow as unknown as FlowNode;
  return flow.id === undefined ? "what all tabs share" : describe({ ...tab, type: "tab" });
}

/** The ids of nodes within an instance have that of the instance before them. */
function describe(node: Definition): string {
  const { id, type, _alias = id } = node;
  const nodeName = nameOf(node);
  return describeNode({ nodeId: _alias, nodeType: type, ...(nodeName !== undefined && { nodeName }) });
}

/** JSONata throws objects. */
function reasonOf(error: unknown): string {
  const { message } = Object(error) as { readonly message?: unknown };
  return typeof message === "string" ? message : String(error);
}
