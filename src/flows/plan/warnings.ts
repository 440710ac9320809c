import { Budget, sizeOf } from "../budget.ts";
import type { Configuration, FlowNode } from "../configuration.ts";
import { containerIdOf, readContainers } from "../containers.ts";
import { findDuplicateEndpoints } from "./warnings/duplicate-endpoints.ts";
import { findLostCredentials, findRemovedCredentials } from "./warnings/lost-credentials.ts";
import { findUnlinkedNodes } from "./warnings/unlinked-nodes.ts";
import { findUnusedConfigs } from "./warnings/unused-configs.ts";
import type { Finding } from "./warnings/finding.ts";
import { findWiresToNothing } from "./warnings/wires-to-nothing.ts";

/** Something in a deployment that is valid, but probably not intended. */
export type Warning = {
  readonly kind: WarningKind;
  readonly nodeId: string;
  /** The id of the node's tab or subflow; empty for global configuration nodes. */
  readonly container: string;
  /** What is wrong, for people: it names the node and its tab. Never contains the value of a credential. */
  readonly message: string;
};

export type WarningKind = (typeof warningKinds)[number];

const warningKinds = [
  "unused_config",
  "wire_to_nothing",
  "link_to_nothing",
  "duplicate_endpoint",
  "lost_credentials",
  "removed_credentials",
] as const;

type Check = (current: Configuration, next: Configuration, budget: Budget) => Iterable<Finding>;

const checks: Readonly<Record<WarningKind, Check>> = {
  unused_config: (_current, { flows }) => findUnusedConfigs(flows),
  wire_to_nothing: (_current, { flows }) => findWiresToNothing(flows),
  link_to_nothing: (_current, { flows }) => findUnlinkedNodes(flows),
  duplicate_endpoint: (_current, { flows }, budget) => findDuplicateEndpoints(flows, budget),
  lost_credentials: findLostCredentials,
  removed_credentials: findRemovedCredentials,
};

/** Finds what `next` warns of, and what it loses of `current`. Throws `limit_exceeded` if that exceeds the budget. */
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
    for (const { node, message: finding } of checks[kind](current, next, budget)) {
      const [nodeId, container, message] = [node.id, containerIdOf(node), `${describe(node)}: ${finding}`];
      budget.addOutput(sizeOf(nodeId) + sizeOf(container) + sizeOf(message));
      warnings.push({ kind, nodeId, container, message });
    }
  }
  return warnings;
}

function quote(text: string): string {
  return JSON.stringify(text);
}
