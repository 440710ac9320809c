import type { Revision } from "../store/revision.ts";
import { type Deployment, mergeDeployments, newerRevision } from "./deployment.ts";

/** The newest known revision, and the next deployment: those that are added while another one is in progress are merged. */
export type DeploymentQueue = {
  newest(): Revision | undefined;
  next(): Deployment | undefined;
  /** Records a revision, and returns the newest one. */
  record(revision: Revision): Revision;
  add(deployment: Deployment): void;
  /** Removes and returns the next deployment, of the newest revision. */
  take(): Deployment | undefined;
};

export function createDeploymentQueue(): DeploymentQueue {
  let newest: Revision | undefined;
  let queued: Deployment | undefined;

  const record = (revision: Revision): Revision => (newest = newerRevision(newest, revision));

  return {
    newest: () => newest,
    next: () => queued,
    record,
    add(deployment) {
      record(deployment.revision);
      queued = mergeDeployments(queued, deployment);
    },
    take() {
      const next = queued && { ...queued, revision: record(queued.revision) };
      queued = undefined;
      return next;
    },
  };
}
