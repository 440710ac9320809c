import type { FlowNode } from "../configuration.ts";
import { toKey } from "./runtime-flows.ts";

/** How often the runtime visits a configuration node that refers to one that does not run, before it gives up. */
const maxVisits = 100;

export type ConfigOrder = {
  /** The nodes that start, in this order. */
  readonly started: readonly FlowNode[];
  /** Whether the runtime starts all of them. If not, their references form a cycle, or a chain in an unfavourable order. */
  readonly isComplete: boolean;
};

/**
 * Predicts how the runtime starts the configuration nodes of a tab or subflow that are not `running`. It visits them round by round
 * and starts those whose references run, also since earlier in the round. A node that has to wait for the 100th time ends the start.
 * Each node's round follows from those of its references, without the rounds.
 */
export function orderConfigs(
  configs: ReadonlyMap<string, FlowNode>,
  running: { has(id: string): boolean },
): ConfigOrder {
  const waiting = [...configs.values()].filter((node) => !running.has(node.id) && node["d"] !== true);
  const positions = new Map(waiting.map(({ id }, index) => [id, index]));
  const rounds = waiting.map(() => 1);
  const unmet = waiting.map(() => 0);
  const dependents = waiting.map((): number[] => []);
  for (const [position, node] of waiting.entries()) {
    for (const id of new Set(referencesOf(node))) {
      const dependency = positions.get(id);
      if (dependency !== undefined) {
        unmet[position] = (unmet[position] as number) + 1;
        dependents[dependency]?.push(position);
      }
    }
  }

  const met = [...unmet.keys()].filter((position) => unmet[position] === 0);
  for (const position of met) {
    for (const dependent of dependents[position] as number[]) {
      const round = (rounds[position] as number) + (position < dependent ? 0 : 1);
      rounds[dependent] = Math.max(rounds[dependent] as number, round);
      unmet[dependent] = (unmet[dependent] as number) - 1;
      if (unmet[dependent] === 0) {
        met.push(dependent);
      }
    }
  }

  const roundOf = (position: number): number => (unmet[position] === 0 ? (rounds[position] as number) : Infinity);
  const failed = waiting.findIndex((_, position) => roundOf(position) > maxVisits);
  const isStarted = (position: number): boolean => {
    const round = roundOf(position);
    return round < maxVisits || (round === maxVisits && (failed === -1 || position < failed));
  };
  const started = [...waiting.keys()].filter(isStarted).toSorted((one, other) => roundOf(one) - roundOf(other));
  return { started: started.map((position) => waiting[position] as FlowNode), isComplete: failed === -1 };
}

function referencesOf(node: FlowNode): string[] {
  return Object.keys(node)
    .filter((property) => property !== "id" && property !== "wires" && property !== "_users")
    .map((property) => toKey(node[property]));
}
