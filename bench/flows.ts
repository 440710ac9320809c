const nodesPerTab = 100;

/** A configuration of function nodes as an editor exports it, about 200 bytes a node. */
export function functionFlows(nodes: number): FlowNode[] {
  const tabs = Array.from({ length: Math.ceil(nodes / nodesPerTab) }, (_, index) => tabOf(index));
  const functions = Array.from({ length: nodes - tabs.length }, (_, index) => ({
    id: nodeId(1, index),
    type: "function",
    z: nodeId(0, index % tabs.length),
    name: `step ${index}`,
    func: `msg.payload += ${index};\nreturn msg;`,
    outputs: 1,
    x: 140 + (index % 10) * 120,
    y: 80 + Math.floor(index / 10) * 40,
    wires: [[nodeId(1, (index + tabs.length) % (nodes - tabs.length))]],
  }));
  return [...tabs, ...functions];
}

/**
 * Change nodes of 100 rules, about 6 KB each, on disabled tabs: the runtime checks them and starts none. Of smaller
 * nodes the runtime would take minutes for a large configuration.
 */
export function changeFlows(bytes: number): FlowNode[] {
  const nodes = Math.ceil(bytes / JSON.stringify(changeNode(1)).length);
  const tabs = Array.from({ length: Math.ceil(nodes / nodesPerTab) }, (_, index) => ({
    ...tabOf(index),
    disabled: true,
  }));
  return [...tabs, ...Array.from({ length: nodes }, (_, index) => changeNode(index))];
}

function tabOf(index: number): FlowNode {
  return { id: nodeId(0, index), type: "tab", label: `Line ${index}`, disabled: false, info: "" };
}

function changeNode(index: number): FlowNode {
  return {
    id: nodeId(1, index),
    type: "change",
    z: nodeId(0, Math.floor(index / nodesPerTab)),
    name: `change ${index}`,
    rules: Array.from({ length: 100 }, (_, rule) => ({
      t: "set",
      p: `payload.field${rule}`,
      pt: "msg",
      to: `${rule}`,
      tot: "num",
    })),
    x: 140,
    y: 80,
    wires: [[]],
  };
}

export type FlowNode = { readonly id: string; readonly [property: string]: unknown };

/** 16 hexadecimal digits, as the editor makes them. */
function nodeId(kind: number, index: number): string {
  return (BigInt(kind * 1_000_000 + index + 1) * 0x9e37_79b9_7f4a_7c15n).toString(16).slice(-16).padStart(16, "0");
}

/** The flows as the body of a deployment, API version 2, with another function in the last node for each `round`. */
export function deploymentBody(flows: readonly FlowNode[], round = 0): string {
  const at = flows.length - 1;
  return JSON.stringify({ flows: flows.with(at, { ...(flows[at] as FlowNode), func: `return { round: ${round} };` }) });
}

/** Resolves when the deployment is answered: the flows have started, or the runtime says why not. */
export async function deploy({ url, headers }: DeploymentTarget, body: string, type: "full" | "nodes"): Promise<void> {
  const response = await fetch(`${url}/flows`, {
    method: "POST",
    headers: { "content-type": "application/json", ...headers(type) },
    body,
  });
  const answer = await response.text();
  if (response.status !== 200) {
    throw new Error(`POST /flows: ${response.status} ${answer}`);
  }
}

/** An API that takes deployments; its headers are its own. */
export type DeploymentTarget = {
  readonly url: string;
  readonly headers: (type: "full" | "nodes") => Record<string, string>;
};

export function flowgateTarget({ url, authorization }: { url: string; authorization: string }): DeploymentTarget {
  return {
    url,
    headers: (type) => ({ authorization, "service-api-version": "v2", "service-deployment-type": type }),
  };
}

export function nodeRedTarget(url: string): DeploymentTarget {
  return {
    url,
    headers: (type) => ({ "node-red-api-version": "v2", "node-red-deployment-type": type }),
  };
}
