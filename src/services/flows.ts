import { setImmediate } from "node:timers/promises";
import { create } from "@bufbuild/protobuf";
import type { ServiceImpl } from "@connectrpc/connect";
import type { Logger } from "pino";
import {
  DeploymentType as DeploymentTypeMessage,
  GetFlowsResponseSchema,
  type FlowsService,
  type GetFlowsResponse,
  type SetFlowsRequest,
} from "../../gen/flowgate/v1/flows_pb.ts";
import { peerKey, principalKey } from "../auth/principal.ts";
import { FlowgateError } from "../errors.ts";
import type { CredentialSets, DeploymentType } from "../flows/configuration.ts";
import { mergeCredentials } from "../flows/credentials.ts";
import { parseFlows } from "../flows/parse-flows.ts";
import { toNodes } from "../flows/to-nodes.ts";
import type { Runtime } from "../runtime/runtime.ts";
import type { FlowStore, Revision } from "../store/store.ts";

export type FlowsServiceOptions = {
  readonly store: FlowStore;
  readonly runtime: Runtime;
  /** Opens the encrypted form of credentials; throws `invalid_credentials` where it can't. */
  readonly decrypt: (encrypted: string) => CredentialSets;
  readonly log: Logger;
};

export function flowsService({ store, runtime, decrypt, log }: FlowsServiceOptions): ServiceImpl<typeof FlowsService> {
  const answers = new WeakMap<Revision, GetFlowsResponse>();

  return {
    async getFlows() {
      const revision = await store.active();
      let answer = answers.get(revision);
      if (answer === undefined) {
        // Frozen: whoever encodes it may keep the bytes, for this object never changes.
        answer = Object.freeze(create(GetFlowsResponseSchema, { rev: revision.rev, flows: toNodes(revision.flows) }));
        answers.set(revision, answer);
      }
      return answer;
    },

    async setFlows(request, { values }) {
      const startMs = performance.now();
      const type = deploymentTypeOf(request);
      const by = values.get(principalKey).username;
      // Store first: a runtime that dies on these flows must find them again when it restarts.
      const revision =
        type === "reload" ? await store.reload() : await commit(store, request, { deploymentType: type, by, decrypt });
      await runtime.apply(revision, type);
      log.info(
        {
          requestId: values.get(peerKey).requestId,
          rev: revision.rev,
          type,
          by,
          nodes: revision.flows.length,
          runtime: runtime.status().state,
          ms: Math.round(performance.now() - startMs),
        },
        "deployed",
      );
      return { rev: revision.rev };
    },
  };
}

const deploymentTypes: ReadonlyMap<DeploymentTypeMessage, DeploymentType> = new Map([
  [DeploymentTypeMessage.UNSPECIFIED, "full"],
  [DeploymentTypeMessage.FULL, "full"],
  [DeploymentTypeMessage.NODES, "nodes"],
  [DeploymentTypeMessage.FLOWS, "flows"],
  [DeploymentTypeMessage.RELOAD, "reload"],
]);

/** An open enum can hold any number. */
function deploymentTypeOf({ deploymentType }: SetFlowsRequest): DeploymentType {
  const type = deploymentTypes.get(deploymentType);
  if (type === undefined) {
    throw new FlowgateError(
      "invalid_deployment_type",
      `deployment_type: ${deploymentType} is not known; use FULL, NODES, FLOWS or RELOAD`,
    );
  }
  return type;
}

type CommitOptions = Pick<FlowsServiceOptions, "decrypt"> & Pick<Revision, "deploymentType" | "by">;

async function commit(store: FlowStore, request: SetFlowsRequest, options: CommitOptions): Promise<Revision> {
  const { deploymentType, by, decrypt } = options;
  // Between the reading of a large body, its check and the commit, other requests get their turn.
  await setImmediate();
  const { flows, inline } = parseFlows(request.flows);
  await setImmediate();
  for (;;) {
    const active = await store.active();
    const credentials = mergeCredentials({
      flows,
      inline,
      given: request.credentials,
      current: active.credentials,
      decrypt,
    });
    try {
      return await store.commit({ parent: request.rev ?? active.rev, deploymentType, by, flows, credentials });
    } catch (error) {
      // A forced deployment has no revision to compare: it only lost a race, and another one won it.
      if (request.rev === undefined && error instanceof FlowgateError && error.reason === "version_mismatch") {
        continue;
      }
      throw error;
    }
  }
}
