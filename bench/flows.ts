const nodesPerTab = 100;

/** Returns a configuration of function nodes in the format of the editor, about 200 bytes per node. */
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
 * Returns change nodes of 100 rules, about 6 KB each, on disabled tabs, so that the runtime checks but does not start them.
 * With smaller nodes the runtime would take minutes for a large configuration.
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

/** Returns 16 hexadecimal digits, the format of ids of the editor. */
function nodeId(kind: number, index: number): string {
  return (BigInt(kind * 1_000_000 + index + 1) * 0x9e37_79b9_7f4a_7c15n).toString(16).slice(-16).padStart(16, "0");
}

/** Returns the body of a deployment in API version v2. `round` changes the function of the last node. */
export function deploymentBody(flows: readonly FlowNode[], round = 0): string {
  const at = flows.length - 1;
  return JSON.stringify({ flows: flows.with(at, { ...(flows[at] as FlowNode), func: `return { round: ${round} };` }) });
}

/** Deploys the flows. Resolves when they have started, or the runtime has reported a failure. */
export async function deploy({ url, headers }: DeploymentTarget, body: string, type: "full" | "nodes"): Promise<void> {
  const response = await fetch(`${url}/flows`, {
    method: "POST",
    headers: { "content-type": "application/json", ...headers(type) },
    body,
  });
  const text = await response.text();
  if (response.status !== 200) {
    throw new Error(`POST /flows: ${response.status} ${text}`);
  }
}

/** An API for deployments, and its request headers. */
export type DeploymentTarget = {
  readonly url: string;
  readonly headers: (type: "full" | "nodes") => Record<string, string>;
};

export function flowgateTarget({ url, authorization }: { url: string; authorization: string }): DeploymentTarget {
  return { url, headers: (type) => ({ authorization, "service-api-version": "v2", "service-deployment-type": type }) };
}

export function nodeRedTarget(url: string): DeploymentTarget {
  return { url, headers: (type) => ({ "node-red-api-version": "v2", "node-red-deployment-type": type }) };
}
