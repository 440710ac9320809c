import type { FlowNode } from "../../configuration.ts";
import { containerIdOf } from "../../containers.ts";
import { receivesMessages } from "../../node-role.ts";
import { targetsOf } from "../linked-nodes.ts";
import { portsOf } from "../subflow-ports.ts";
import type { Finding } from "./finding.ts";

/**
 * Finds wires to nodes that do not exist or can't receive messages. The wires of a subflow's ports and nodes must stay in the
 * subflow.
 */
export function findWiresToNothing(flows: readonly FlowNode[]): readonly Finding[] {
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
