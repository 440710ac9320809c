import type { DeploymentType as DeploymentTypeMessage } from "../../../gen/flowgate/v1/flows_pb.ts";
import type { Change } from "../../deployments/change.ts";
import { FlowgateError } from "../../errors.ts";
import type { DeploymentType } from "../../flows/configuration.ts";
import { parseDeploymentType } from "../../flows/deployment-type.ts";
import type { FlowStore } from "../../store/flow-store.ts";

type Store = Pick<FlowStore, "find">;

/** Makes the content of an earlier revision active again. */
export function restoreChange(rev: string, deploymentType: DeploymentType, store: Store): Change {
  return {
    cause: "restore",
    deploymentType,
    apply: () => read(rev, store),
    identity: () => [rev],
  };
}

/** Makes the content of the active revision's parent active again. `rev` is the revision that the request names. */
export function undoChange(rev: string | undefined, deploymentType: DeploymentType, store: Store): Change {
  return {
    cause: "undo",
    deploymentType,
    apply({ cause, parent }) {
      // Its parent has failed.
      if (cause === "automatic_undo") {
        throw nothingToUndo("the last deployment was undone automatically: restore a revision by its rev instead");
      }
      if (parent === undefined) {
        throw nothingToUndo("the active revision is the first one");
      }
      return read(parent, store);
    },
    identity: () => [rev ?? ""],
  };
}

function nothingToUndo(message: string): FlowgateError {
  return new FlowgateError("nothing_to_undo", message);
}

/** A restored revision has flows already, hence it can't be a reload. */
export function parseRestoreType(value: DeploymentTypeMessage): DeploymentType {
  const type = parseDeploymentType(value);
  if (type === "reload") {
    throw new FlowgateError(
      "invalid_deployment_type",
      "deployment_type: must be full, nodes or flows, since reload deploys no flows",
    );
  }
  return type;
}

async function read(rev: string, store: Store): Promise<Awaited<ReturnType<Change["apply"]>>> {
  const revision = await store.find(rev);
  if (revision === undefined) {
    throw revisionNotFound(rev);
  }
  return { flows: revision.flows, credentials: revision.credentials, restoredRev: rev };
}

export function revisionNotFound(rev: string): FlowgateError {
  return new FlowgateError(
    "not_found",
    `there is no revision ${JSON.stringify(rev.slice(0, 64))}; it may have been removed from the history`,
  );
}
