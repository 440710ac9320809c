import { combineRuns } from "../runtime/replicas/runs.ts";
import type { Cluster } from "../store/cluster.ts";
import type { Revision } from "../store/revision.ts";
import { type ProbationWatch, openWatch, type Watched } from "./probation-watch.ts";

/** Watches the runtimes of all replicas that run flows. */
export function watchReplicas(
  revision: Revision,
  forMs: number,
  { cluster, ...watched }: Watched & { readonly cluster: Pick<Cluster, "replicas" | "onChange"> },
): ProbationWatch {
  const { seq } = revision;
  return openWatch(revision, forMs, watched, (health) => {
    const evaluate = (): void => {
      const result = combineRuns(cluster.replicas(), seq);
      if (result !== undefined && result.outcome !== "running") {
        health.failed(result);
      } else if (result === undefined) {
        // A replica that has joined starts the flows.
        health.interrupted();
      } else {
        health.started();
      }
    };
    const subscription = cluster.onChange(evaluate);
    evaluate();
    return subscription;
  });
}
