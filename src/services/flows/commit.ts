import type { Context } from "@opentelemetry/api";
import type { SetFlowsRequest } from "../../../gen/flowgate/v1/flows_pb.ts";
import { FlowgateError } from "../../errors.ts";
import type { CredentialSets, DeploymentType } from "../../flows/configuration.ts";
import { type Decrypt, mergeCredentials } from "../../flows/credentials.ts";
import type { PreparedDeployment } from "../../flows/prepare.ts";
import type { FlowStore, Origin, Revision } from "../../store/store.ts";
import { inSpan } from "../../telemetry/trace.ts";

export type CommitOptions = {
  readonly origin: Origin;
  readonly store: FlowStore;
  /**
   * Validates a request and merges its credentials into the current ones, as `prepareDeployment` does. It may also throw
   * because it can't decode a request that was not decoded yet.
   */
  readonly prepare: (request: SetFlowsRequest, current: CredentialSets) => Promise<PreparedDeployment>;
  readonly decrypt: Decrypt;
  readonly trace: Context;
  readonly signal: AbortSignal;
  /** Called with the type of the deployment as soon as it is known. */
  readonly onType: (type: DeploymentType) => void;
};

/** Commits the deployment of a request, and resolves with its revision. A reload resolves with the revision in the store. */
export async function commitRequest(
  request: SetFlowsRequest,
  { store, prepare, decrypt, origin, trace, signal, onType }: CommitOptions,
): Promise<Revision> {
  let { credentials: current } = store.active();
  const { type, rev, outcome } = await prepare(request, current);
  onType(type);
  // The deadline may have passed while the body was received.
  signal.throwIfAborted();
  if (outcome === undefined) {
    return inSpan(trace, "store.reload", {}, () => store.reload());
  }
  if (outcome instanceof Error) {
    throw outcome;
  }
  const { flows, submitted } = outcome;
  let { credentials } = outcome;
  for (;;) {
    const active = store.active();
    if (active.credentials !== current) {
      current = active.credentials;
      credentials = mergeCredentials({ ...submitted, flows: flows.nodes, current, decrypt });
    }
    const draft = { parent: rev ?? active.rev, deploymentType: type, by: origin.by, origin, flows, credentials };
    try {
      return await inSpan(trace, "store.commit", { "flowgate.deployment.type": type }, () =>
        store.commit(draft, signal),
      );
    } catch (error) {
      // A forced deployment has no `rev` to compare: another deployment was committed first, and this one is tried again.
      if (rev === undefined && error instanceof FlowgateError && error.reason === "version_mismatch") {
        continue;
      }
      throw error;
    }
  }
}
