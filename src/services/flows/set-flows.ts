import { toBinary } from "@bufbuild/protobuf";
import type { HandlerContext } from "@connectrpc/connect";
import { CredentialsSchema } from "../../../gen/flowgate/v1/flows_pb.ts";
import type { Change } from "../../deployments/change.ts";
import type { CredentialSets, CurrentCredentials } from "../../flows/configuration.ts";
import { type Decrypt, mergeCredentials } from "../../flows/credentials.ts";
import type { FlowsRequest, PreparedDeployment } from "../../flows/prepare.ts";
import type { Caller } from "../../base/shared-threads.ts";

/**
 * Validates a request and merges its credentials into the current ones, as `prepareDeployment` does. It may also throw
 * because it can't decode a request that was not decoded yet.
 */
export type Prepare = (
  request: FlowsRequest,
  current: CurrentCredentials,
  context: HandlerContext,
  caller: Caller,
) => Promise<PreparedDeployment>;

/** The change that a prepared request makes. `current` are the credentials that it was prepared with. */
export function toChange(
  { type, rev, outcome }: PreparedDeployment,
  current: CredentialSets,
  decrypt: Decrypt,
): Change {
  if (outcome === undefined || outcome instanceof Error) {
    return rejectedChange(type, outcome ?? new TypeError("a reload changes no flows"));
  }
  const { flows, submitted } = outcome;
  return {
    cause: "deployment",
    deploymentType: type,
    apply(active) {
      // Another deployment may have changed the credentials during the preparation.
      const credentials =
        active.credentials === current
          ? outcome.credentials
          : mergeCredentials({ ...submitted, flows: flows.nodes, current: active.credentials, decrypt });
      return { flows, credentials, submitted };
    },
    identity: () => [
      rev ?? "",
      flows.json,
      JSON.stringify(Array.from(submitted.inline, ([id, set]) => [id, [...set]])),
      submitted.topLevel === undefined ? "" : toBinary(CredentialsSchema, submitted.topLevel),
    ],
  };
}

function rejectedChange(deploymentType: Change["deploymentType"], error: Error): Change {
  return {
    cause: "deployment",
    deploymentType,
    apply() {
      throw error;
    },
    identity: () => [],
  };
}
