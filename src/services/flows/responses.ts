import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { setEncodedField } from "@flowgate/gateway";
import {
  type GetFlowsResponse,
  GetFlowsResponseSchema,
  type Node,
  type SetFlowsResponseSchema,
} from "../../../gen/flowgate/v1/flows_pb.ts";
import type { Deployed } from "../../deployments/deployer.ts";
import { outcomes } from "../../deployments/revision-message.ts";
import { toNodes } from "../../flows/to-nodes.ts";
import type { Revision } from "../../store/revision.ts";

/**
 * Creates the response for a revision. It is frozen, so that its encoding can be cached. HTTP responses contain the document's
 * JSON unchanged; RPC responses encode its nodes, which are converted at the first access.
 */
export function toGetFlowsResponse({ rev, flows }: Revision): GetFlowsResponse {
  let nodes: Node[] | undefined;
  const response = create(GetFlowsResponseSchema, { rev });
  Object.defineProperty(response, "flows", { enumerable: true, get: () => (nodes ??= toNodes(flows.nodes)) });
  return Object.freeze(setEncodedField(response, "flows", flows.json));
}

/** The fields of all responses to deployments. */
export function toSetFlowsResponse({ revision, rev, outcome, missingTypes, merge }: Deployed) {
  return {
    rev,
    outcome: outcomes[outcome],
    missingTypes: limitToHeader(missingTypes),
    ...(merge !== undefined && { mergedRev: merge.rev, mergedChanges: merge.changes.listed }),
    ...(outcome === "undone" && { undoneRev: revision.rev }),
  } satisfies MessageInitShape<typeof SetFlowsResponseSchema>;
}

/** Clients and proxies reject responses with more than 4 to 16 KB of headers in total. */
const maxHeaderChars = 2_000;

/** Returns as many of the names as fit into a header with percent-encoded values. */
function limitToHeader(names: readonly string[]): string[] {
  let chars = 0;
  const excess = names.findIndex((name) => {
    chars += encodeURIComponent(name.toWellFormed()).length + ", ".length;
    return chars > maxHeaderChars;
  });
  return names.slice(0, excess === -1 ? undefined : excess);
}
