import { combineRuns, ofReplica, runnersOf } from "../replicas/runs.ts";
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
      const replicas = cluster.replicas();
      const result = combineRuns(replicas, seq);
      // The message of running flows names nodes that logged errors while they were started.
      const faulty = runnersOf(replicas).find(
        ({ run }) => run.seq === seq && run.outcome === "running" && run.message !== undefined,
      );
      if (result !== undefined && result.outcome !== "running") {
        health.failed(result);
      } else if (faulty !== undefined) {
        const message = ofReplica(faulty, faulty.run.message ?? "");
        health.failed({ outcome: "failed", missingTypes: faulty.run.missingTypes, message });
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
