import type { Revision } from "./revision.ts";
import type { ProcessExit } from "./child-process.ts";
import type { Deployment } from "./deployment-queue.ts";
import type { ModulesLoaded, Ready } from "./messages.ts";
import type { DeploymentResult } from "./runtime.ts";

export type InstanceEvents = {
  /** Called for each message after its start, heartbeats included. */
  readonly onActivity: () => void;
  readonly onReady: (ready: Ready) => void;
  readonly onModulesLoaded: (loaded: ModulesLoaded) => void;
  /** `isFirst`: the process had received no deployment before. */
  readonly onDeployed: (deployment: Deployment, result: DeploymentResult, isFirst: boolean) => void;
  readonly onExit: (exit: InstanceExit) => void;
  /** Called when flows have shown that code of them may disturb later ones, at times for each message. */
  readonly onDistrust: (reason: string) => void;
  /** True if a deployment is waiting for the current one. */
  readonly hasNewerDeployment: () => boolean;
};

export type InstanceExit = ProcessExit & {
  /** The deployment that was in progress. */
  readonly unfinished: Deployment | undefined;
  /** A deployment that was sent, but that the child did not receive: the previous flows caused the exit. */
  readonly undelivered: Deployment | undefined;
  /** The revision of the last deployment that it finished. */
  readonly lastRevision: Revision | undefined;
  /** How long the child ran flows. */
  readonly flowsRanMs: number;
  /** True if the child received flows, which may have caused the exit. */
  readonly hadFlows: boolean;
  /** True if it ended without flows, and not because of its port: modules that it loaded may be the cause. */
  readonly isLoadFailure: boolean;
  /** True if it was stopped, or killed for a newer deployment. */
  readonly isExpected: boolean;
};
