import { Budget, sizeOf } from "../budget.ts";
import type { Configuration, FlowNode } from "../configuration.ts";
import { containerIdOf, findMissingTabs, hasPosition, readContainers, receivesMessages, roleOf } from "../nodes.ts";
import { type SimulatedNode, startAll } from "./running-flows.ts";
import { countRunning, parseForRuntime } from "./runtime-flows.ts";
import { linksOf, portsOf, targetsOf } from "./wires.ts";
import { visitTexts } from "../json.ts";

/** Something in a deployment that is valid, but probably not intended. */
export type Warning = {
  readonly kind: WarningKind;
  readonly nodeId: string;
  /** The id of the node's tab or subflow; empty for global configuration nodes. */
  readonly container: string;
  /** The problem, for people: it names the node and its tab. Never contains the value of a credential. */
  readonly message: string;
  /** True if the current flows have it too. */
  readonly existing: boolean;
};

type WarningKind = (typeof warningKinds)[number];

const warningKinds = [
  "missing_tab",
  "unused_config",
  "wire_to_nothing",
  "link_to_nothing",
  "duplicate_endpoint",
  "lost_credentials",
  "removed_credentials",
] as const;

type Check = (current: Configuration, next: Configuration, budget: Budget) => Iterable<Finding>;

const checks: Readonly<Record<WarningKind, Check>> = {
  missing_tab: (_current, { flows }) => findNodesWithoutTab(flows),
  unused_config: (_current, { flows }) => findUnusedConfigs(flows),
  wire_to_nothing: (_current, { flows }) => findWiresToNothing(flows),
  link_to_nothing: (_current, { flows }) => findUnlinkedNodes(flows),
  duplicate_endpoint: (_current, { flows }, budget) => findDuplicateEndpoints(flows, budget),
  lost_credentials: findLostCredentials,
  removed_credentials: findRemovedCredentials,
};

/**
 * Finds the warnings of `next`, and its losses compared with `current`. Throws `limit_exceeded` if they exceed the
 * budget.
 */
export function findWarnings(
  current: Configuration,
  next: Configuration,
  budget: Budget = new Budget(),
): readonly Warning[] {
  const containers = new Map([...readContainers(current.flows), ...readContainers(next.flows)]);
  const describe = (node: FlowNode): string => {
    const { kind, name, id } = containers.get(containerIdOf(node)) ?? { kind: "global", name: undefined, id: "" };
    const place = kind === "global" ? "" : ` in ${kind} ${quote(name ?? id)}`;
    return `${node.type} ${quote(typeof node["name"] === "string" && node["name"] !== "" ? node["name"] : node.id)}${place}`;
  };
  const warnings: Warning[] = [];
  for (const kind of warningKinds) {
    let known: ReadonlySet<string> | undefined;
    for (const { node, message: finding } of checks[kind](current, next, budget)) {
      known ??= new Set(Iterator.from(checks[kind](current, current, budget)).map(keyOf));
      const existing = known.has(keyOf({ node, message: finding }));
      const [nodeId, container, message] = [node.id, containerIdOf(node), `${describe(node)}: ${finding}`];
      budget.addOutput(sizeOf(nodeId) + sizeOf(container) + sizeOf(message));
      warnings.push({ kind, nodeId, container, message, existing });
    }
    budget.checkTime();
  }
  return warnings;
}

function keyOf({ node, message }: Finding): string {
  return `${node.id} ${message}`;
}

function quote(text: string): string {
  return JSON.stringify(text);
}

/** A node, and its problem. */
type Finding = { readonly node: FlowNode; readonly message: string };

/**
 * Finds the first node of each tab that does not exist, and of the nodes that have coordinates, but no tab: the runtime does not start
 * them.
 */
function findNodesWithoutTab(flows: readonly FlowNode[]): readonly Finding[] {
  const missing = findMissingTabs(flows);
  const strays = flows.filter(
    (node) =>
      node.type !== "tab" &&
      node.type !== "subflow" &&
      node.type !== "group" &&
      (node["z"] ? missing.has(containerIdOf(node)) : hasPosition(node)),
  );
  return Array.from(Map.groupBy(strays, containerIdOf), ([tab, [node, ...others]]) => {
    const count = others.length === 0 ? "" : `, as for ${others.length} more ${others.length === 1 ? "node" : "nodes"}`;
    const message =
      tab === ""
        ? `it has x and y, but no tab (z)${count}: the runtime does not start it`
        : `there is no tab ${quote(tab)} (z)${count}: the runtime starts it as on an enabled tab without a label`;
    return { node: node as FlowNode, message };
  });
}

/** Finds configuration nodes whose id no other node contains. The node of the global environment needs no user. */
function findUnusedConfigs(flows: readonly FlowNode[]): readonly Finding[] {
  const configs = flows.filter(
    (node) => roleOf(node) === "config" && !receivesMessages(node) && node.type !== "global-config",
  );
  const unused = new Map(configs.map((node) => [node.id, node]));
  for (const { id, z: _container, ...properties } of flows) {
    visitTexts(properties, (text) => {
      if (text !== id) {
        unused.delete(text);
      }
    });
  }
  return Array.from(unused.values(), (node) => ({ node, message: "no node uses this configuration node" }));
}

/**
 * Finds wires to nodes that do not exist or can't receive messages. The wires of a subflow's ports and nodes must stay in the
 * subflow.
 */
function findWiresToNothing(flows: readonly FlowNode[]): readonly Finding[] {
  const nodes = new Map(flows.map((node) => [node.id, node]));
  const isReceiver = (id: string, container: FlowNode | undefined): boolean => {
    const target = nodes.get(id);
    return (
      target !== undefined &&
      receivesMessages(target) &&
      (container?.type !== "subflow" || containerIdOf(target) === container.id)
    );
  };
  return flows.flatMap((node) =>
    node.type === "subflow"
      ? portTargets(node)
          .filter(({ id }) => id !== node.id && !isReceiver(id, node))
          .map(({ id, port }) => ({ node, message: `its ${port} is wired to ${name(id)}` }))
      : [...new Set(targetsOf(node))]
          .filter((id) => !isReceiver(id, nodes.get(containerIdOf(node))))
          .map((id) => ({ node, message: `it is wired to ${name(id)}` })),
  );
}

function name(id: string): string {
  return `${JSON.stringify(id)}, which is not a node that can receive its messages`;
}

function portTargets(subflow: FlowNode): { id: string; port: string }[] {
  const kinds = { in: "input", out: "output", status: "status" } as const;
  return (["in", "out", "status"] as const).flatMap((key) =>
    portsOf({ definition: subflow }, key).flatMap(({ wires }) => wires.map(({ id }) => ({ id, port: kinds[key] }))),
  );
}

/** Finds link nodes that lead to nothing. A link exists if either of its ends lists the other. */
function findUnlinkedNodes(flows: readonly FlowNode[]): readonly Finding[] {
  const inputs = new Set(flows.filter(({ type }) => type === "link in").map(({ id }) => id));
  const linkedByInput = new Set(flows.filter(({ type }) => type === "link in").flatMap(linksOf));
  return flows.flatMap((node) => {
    if (!needsLink(node)) {
      return [];
    }
    const links = linksOf(node);
    const lost = links.filter((id) => !inputs.has(id));
    if (links.length === 0 && !(node.type === "link out" && linkedByInput.has(node.id))) {
      return [{ node, message: "it is linked to nothing" }];
    }
    return lost.map((id) => ({
      node,
      message: `it is linked to ${JSON.stringify(id)}, which is not a "link in" node`,
    }));
  });
}

/** A "link out" node that returns to its caller has no links, nor does a call whose target is in the message. */
function needsLink({ type, mode, linkType }: FlowNode): boolean {
  return (type === "link out" && mode !== "return") || (type === "link call" && linkType !== "dynamic");
}

/** Finds "http in" nodes that run with the same method and path: only the first of them receives requests. */
function* findDuplicateEndpoints(flows: readonly FlowNode[], budget: Budget): Generator<Finding> {
  const endpoints = new Map<FlowNode, string>();
  for (const node of flows) {
    const endpoint = endpointOf(node);
    if (endpoint !== undefined) {
      endpoints.set(node, endpoint);
    }
  }
  if (endpoints.size === 0) {
    return;
  }
  // Determined once for each node, since it can run in many instances.
  const routes = new Map<FlowNode, SimulatedNode[]>();
  for (const nodes of Map.groupBy(endpoints.keys(), (node) => routeOf(endpoints.get(node) ?? "")).values()) {
    const running: SimulatedNode[] = [];
    nodes.forEach((node) => routes.set(node, running));
  }
  const parsed = parseForRuntime(flows);
  budget.checkRunning(countRunning(parsed));
  const started = new Set<readonly SimulatedNode[]>();
  startAll(parsed, (running) => {
    const route = routes.get(running.node);
    if (route !== undefined) {
      route.push(running);
      started.add(route);
    }
  });
  for (const [first, ...others] of started) {
    for (const { node, instances } of others) {
      const inInstance = instances.length === 0 ? "" : `, in the instance ${JSON.stringify(instances.at(-1))}`;
      yield {
        node,
        message: `${endpoints.get(node)} is served by ${JSON.stringify(first?.node.id)} already${inInstance}`,
      };
    }
  }
}

/** The method and path of a node; undefined if it is not an endpoint, or if its path comes from the environment. */
function endpointOf({ type, method, url }: FlowNode): string | undefined {
  if (type !== "http in" || typeof method !== "string" || typeof url !== "string" || url === "" || url.includes("${")) {
    return undefined;
  }
  return `${method.toUpperCase()} ${url.startsWith("/") ? url : `/${url}`}`;
}

/**
 * The same text for endpoints that match the same paths in Express 4, which ignores case, a trailing slash and the
 * names of parameters. A path with a regular expression is compared unchanged.
 */
function routeOf(endpoint: string): string {
  const route = endpoint.replace(/(?<=[^ ])\/$/, "");
  return /[(\\]/.test(route) ? route : route.toLowerCase().replaceAll(/:\w+/g, ":");
}

/**
 * Finds nodes of `current` that `next` has without some of their credentials, nodes that come back without them, and removed ones
 * whose credentials can't come back with them.
 */
function findLostCredentials(current: Configuration, next: Configuration): readonly Finding[] {
  const nodes = new Map(next.flows.map((node) => [node.id, node]));
  const lost = current.flows.flatMap((node) => {
    const type = nodes.get(node.id)?.type;
    const remaining = type === undefined ? undefined : next.credentials.get(node.id);
    const names = namesOf(current, node.id).filter((name) => remaining?.has(name) !== true);
    if (names.length === 0 || (type === undefined && next.kept?.has(node.id) === true)) {
      return [];
    }
    const cause = type === undefined ? "it is removed" : `its type becomes ${JSON.stringify(type)}`;
    const message = type === node.type ? "it loses credentials" : `${cause}, and its credentials are lost`;
    return [{ node, message: `${message}: ${names.join(", ")}` }];
  });
  const missing = Array.from(next.missing ?? [], ([id, { type, rev, names }]) => {
    const node = nodes.get(id);
    const reason =
      node?.type === type
        ? `the history has no revision ${rev} any more`
        : `it had them with the type ${JSON.stringify(type)}`;
    const list = names.length === 0 ? "" : `: ${names.toSorted().join(", ")}`;
    return node === undefined
      ? []
      : [{ node, message: `it comes back without its credentials, because ${reason}${list}` }];
  });
  return [...lost, ...missing.flat()];
}

/** Finds nodes that `next` removes, whose credentials come back with them. */
function findRemovedCredentials(current: Configuration, next: Configuration): readonly Finding[] {
  const ids = new Set(next.flows.map(({ id }) => id));
  return current.flows.flatMap((node) => {
    const names = namesOf(current, node.id);
    const rev = next.kept?.get(node.id)?.rev;
    if (names.length === 0 || rev === undefined || ids.has(node.id)) {
      return [];
    }
    const condition = `they come back if it is deployed again with this id and type, while revision ${rev} is in the history`;
    return [{ node, message: `its credentials are removed with it: ${names.join(", ")}; ${condition}` }];
  });
}

function namesOf({ credentials }: Configuration, id: string): readonly string[] {
  return [...(credentials.get(id)?.keys() ?? [])].toSorted();
}
