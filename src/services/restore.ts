import type { HandlerContext } from "@connectrpc/connect";
import { DeploymentType as DeploymentTypeMessage } from "../../gen/flowgate/v1/flows_pb.ts";
import type { Analysis } from "../flows/analysis/analysis.ts";
import { callerOf } from "../auth/caller.ts";
import type { Change, Content } from "../deployments/deployment.ts";
import { FlowgateError } from "../errors.ts";
import { type DeploymentType, parseDeploymentType } from "../flows/configuration.ts";
import { type Violation, invalidFlows } from "../flows/violation.ts";
import type { FlowStore } from "../store/flow-store.ts";
import { findRevision, retainingMemory } from "./responses.ts";

export type RestoreOptions = {
  readonly store: Pick<FlowStore, "active" | "find" | "findEntry">;
  readonly analysis: Pick<Analysis, "validate">;
};

type RestoreContext = Pick<HandlerContext, "values" | "signal">;

/** Makes the content of an earlier revision active again. */
export function restoreChange(
  rev: string,
  deploymentType: DeploymentType,
  context: RestoreContext,
  options: RestoreOptions,
): Change {
  return {
    cause: "restore",
    deploymentType,
    apply: () => read(rev, context, options),
    identity: () => [rev],
  };
}

/**
 * Makes the content of the active revision's parent active again. `rev` is the revision that the request names. The type defaults to
 * that of the deployment that is undone.
 */
export function undoChange(
  rev: string | undefined,
  requestedType: DeploymentTypeMessage,
  context: RestoreContext,
  options: RestoreOptions,
): Change {
  const deploymentType = parseTypeWithoutReload(requestedType);
  const isDefault = requestedType === DeploymentTypeMessage.UNSPECIFIED;
  return {
    cause: "undo",
    deploymentType,
    async apply({ cause, parent, deploymentType: undoneType }) {
      // Its parent has failed.
      if (cause === "automatic_undo") {
        throw nothingToUndo("the last deployment was undone automatically: restore a revision by its rev instead");
      }
      if (parent === undefined) {
        throw nothingToUndo("the active revision is the first one");
      }
      const content = await read(parent, context, options);
      return isDefault ? { ...content, deploymentType: undoneType } : content;
    },
    identity: () => (isDefault ? [rev ?? "", "default"] : [rev ?? ""]),
  };
}

function nothingToUndo(message: string): FlowgateError {
  return new FlowgateError("nothing_to_undo", message);
}

/** A reload makes no revision. */
export function parseTypeWithoutReload(value: DeploymentTypeMessage): DeploymentType {
  const type = parseDeploymentType(value);
  if (type === "reload") {
    throw reloadWithoutFlows();
  }
  return type;
}

export function reloadWithoutFlows(): FlowgateError {
  return new FlowgateError(
    "invalid_deployment_type",
    "deployment_type: must be full, nodes or flows, since reload deploys no flows",
  );
}

async function read(rev: string, context: RestoreContext, { store, analysis }: RestoreOptions): Promise<Content> {
  const { flows, credentials } = await findRevision(store, rev, context);
  const { violation } = await retainingMemory(context, () =>
    analysis.validate({ flows, credentials }, callerOf(context)),
  );
  if (violation !== undefined) {
    throw notRestorable(rev, violation);
  }
  return { flows, credentials, restoredRev: rev };
}

/** An earlier version of the service has accepted what the flow runtime can't use. */
function notRestorable(rev: string, { path, message }: Violation): FlowgateError {
  const remedy = `the revision ${JSON.stringify(rev)} is older than this rule: read it, correct its flows and deploy them`;
  return invalidFlows({ path, message: `${message}; ${remedy}` });
}
