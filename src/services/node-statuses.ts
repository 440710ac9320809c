import type { MessageInitShape } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import type {
  FlowStateSchema,
  ListNodeStatusesRequest,
  ListNodeStatusesResponseSchema,
  NodeStateSchema,
} from "../../gen/flowgate/v1/runtime_pb.ts";
import { LogLevel } from "../../gen/flowgate/v1/events_pb.ts";
import { FlowgateError } from "@flowgate/flows/errors";
import { type NodeState, isFailing } from "../events/node-states.ts";
import { maxEventCount } from "@flowgate/runtime";
import { readPageSize } from "./lists.ts";

/** A page of the nodes, and on the first one their flows. Throws `invalid_argument`. */
export function listNodeStatuses(
  states: readonly NodeState[],
  { pageSize, pageToken, tab, node, failing }: ListNodeStatusesRequest,
): MessageInitShape<typeof ListNodeStatusesResponseSchema> {
  const size = readPageSize(pageSize);
  const after = parseToken(pageToken);
  const ofTab = tab === "" ? states : states.filter((state) => state.node.flowId === tab);
  const sorted = ofTab
    .filter((state) => (node === "" || isNamed(state, node)) && (!failing || isFailing(state)))
    .map((state) => ({ key: keyOf(state), state }))
    .filter(({ key }) => after === undefined || key > after)
    .toSorted((one, other) => (one.key < other.key ? -1 : 1));
  const page = sorted.slice(0, size);
  const last = page.at(-1);
  return {
    nodes: page.map(({ state }) => toMessage(state)),
    ...(last !== undefined && sorted.length > size && { nextPageToken: Buffer.from(last.key).toString("base64url") }),
    ...(after === undefined && { flows: sumUp(ofTab) }),
  };
}

function isNamed({ node: { nodeId, nodeName, nodeType } }: NodeState, text: string): boolean {
  return nodeId === text || nodeName === text || nodeType === text;
}

const separator = "\n";

/** Orders nodes by flow, then by their place in it. */
function keyOf({ node: { flowLabel = "", flowId = "", subflowPath = [], nodeId } }: NodeState): string {
  return [flowLabel, flowId, ...subflowPath, nodeId].join(separator);
}

function parseToken(token: string): string | undefined {
  if (token === "") {
    return undefined;
  }
  const key = Buffer.from(token, "base64url").toString();
  if (!key.includes(separator)) {
    throw new FlowgateError("invalid_argument", "pageToken: must be the nextPageToken of the previous page");
  }
  return key;
}

function toMessage(state: NodeState): MessageInitShape<typeof NodeStateSchema> {
  const { node, status, messages, errors, warnings, lastMessageMs } = state;
  return {
    ...node,
    subflowPath: [...(node.subflowPath ?? [])],
    status,
    messages,
    errors,
    warnings,
    ...toLastError(state),
    ...(lastMessageMs !== undefined && { lastMessageTime: timestampFromMs(lastMessageMs) }),
  };
}

function toLastError({ lastError, lastErrorMs }: Pick<NodeState, "lastError" | "lastErrorMs">) {
  return lastError === undefined || lastErrorMs === undefined
    ? {}
    : { lastError: { ...lastError, count: 1 }, lastErrorTime: timestampFromMs(lastErrorMs) };
}

function sumUp(states: readonly NodeState[]): MessageInitShape<typeof FlowStateSchema>[] {
  const flows = Map.groupBy(states, ({ node }) => node.flowId ?? "");
  return [...flows]
    .map(([flowId, nodes]) => {
      const failed = latest(
        nodes.filter(({ lastError }) => lastError !== undefined && lastError.level <= LogLevel.ERROR),
        "lastErrorMs",
      );
      const lastMessageMs = latest(nodes, "lastMessageMs")?.lastMessageMs;
      return {
        flowId,
        flowLabel: nodes[0]?.node.flowLabel ?? "",
        nodes: nodes.length,
        failingNodes: nodes.filter((state) => isFailing(state)).length,
        errors: Math.min(maxEventCount, sum(nodes, "errors")),
        warnings: Math.min(maxEventCount, sum(nodes, "warnings")),
        messages: sum(nodes, "messages"),
        ...(failed !== undefined && toLastError(failed)),
        ...(lastMessageMs !== undefined && { lastMessageTime: timestampFromMs(lastMessageMs) }),
      };
    })
    .toSorted((one, other) => (`${one.flowLabel}\n${one.flowId}` < `${other.flowLabel}\n${other.flowId}` ? -1 : 1));
}

function sum(states: readonly NodeState[], name: "errors" | "warnings" | "messages"): number {
  return states.reduce((total, state) => total + state[name], 0);
}

function latest(states: readonly NodeState[], name: "lastErrorMs" | "lastMessageMs"): NodeState | undefined {
  let found: NodeState | undefined;
  for (const state of states) {
    if ((state[name] ?? -1) > (found?.[name] ?? -1)) {
      found = state;
    }
  }
  return found;
}
