import type { Context } from "@opentelemetry/api";
import type { CredentialSets } from "../flows/configuration.ts";
import type { Revision } from "../store/revision.ts";
import { type OpenSpan, beginSpan, formatTraceparent } from "../telemetry/trace.ts";
import { spawnChild } from "./child-process.ts";
import { type Deployment, changedCredentials, deploymentBudgetMs, restartsAllNodes } from "./deployment.ts";
import { type Phase, isHang, killReason, startHeartbeatMonitor } from "./liveness.ts";
import { type Deploy, type Deployed, type Initialize, type Ready, heartbeatIntervalMs } from "./messages.ts";
import type { CompleteOptions } from "./options.ts";
import { stopLimitMs } from "./restarts.ts";

type DeployedResult = Required<Pick<Deployed, "missingTypes">> & Pick<Deployed, "failure" | "lacksModules">;

export type InstanceEvents = {
  /** Called for each message after its start, heartbeats included. */
  readonly onActivity: () => void;
  readonly onReady: (ready: Ready) => void;
  readonly onDeployed: (deployment: Deployment, result: DeployedResult) => void;
  readonly onExit: (exit: InstanceExit) => void;
  /** Called when flows have shown that code of them may disturb later ones, at times for each message. */
  readonly onDistrust: (reason: string) => void;
  /** Whether a deployment is waiting for the current one. */
  readonly hasNewerDeployment: () => boolean;
};

export type InstanceExit = {
  readonly cause: string;
  /** The deployment that was in progress. */
  readonly unfinished: Deployment | undefined;
  /** A deployment that was sent, but that the child did not receive: the previous flows caused the exit. */
  readonly undelivered: Deployment | undefined;
  /** The revision of the last deployment that it finished. */
  readonly lastRevision: Revision | undefined;
  /** How long the child ran flows. */
  readonly flowsRanMs: number;
  /** Whether the child received flows, which may have caused the exit. */
  readonly hadFlows: boolean;
  /** Whether it ended without flows, and not because of its port: modules that it loaded may be the cause. */
  readonly isLoadFailure: boolean;
  /** Whether it was stopped, or killed for a newer deployment. */
  readonly isExpected: boolean;
};

/** One process of the flow runtime, to its exit. */
export type RuntimeInstance = {
  processId(): number | undefined;
  /** Opens the port of HTTP-in nodes, which no other process may have then. `trace` is the parent of the span of the start. */
  start(trace: Context): void;
  /** Whether it can receive a deployment now. */
  isIdle(): boolean;
  /** Whether no deployment was sent to it yet. */
  isEmpty(): boolean;
  /** Whether it has received a deployment with nodes, whose code may remain after they were stopped. */
  hasRunNodes(): boolean;
  /** The deployment in progress. */
  currentDeployment(): Deployment | undefined;
  /** Whether its last deployment, failed or not, makes this one unnecessary. */
  hasApplied(deployment: Pick<Deployment, "revision" | "type">): boolean;
  /** Must only be called while it is idle. */
  deploy(deployment: Deployment): void;
  /** Kills the process if it has not exited within `stopMs`; at once if that is 0. Resolves when it has exited. */
  stop(stopMs?: number): Promise<void>;
  kill(): void;
};

/** Creates a process, which loads the flow runtime. It can do so while another one runs the flows. */
export function prepareInstance(options: CompleteOptions, events: InstanceEvents): RuntimeInstance {
  const exited = Promise.withResolvers<void>();
  let phase: Phase = "prepared";
  let phaseMs = 0;
  let stopMs = stopLimitMs(options.nodeCloseTimeoutMs);
  let unfinished: Deployment | undefined;
  let isDeployStarted = false;
  let deploymentId = 0;
  let lastRevision: Revision | undefined;
  let credentials: CredentialSets = new Map();
  /** The sequence number of the newest revision with which all nodes were restarted. */
  let fullSeq = -1;
  let flowsSinceMs: number | undefined;
  let hasRunNodes = false;
  let killed: { readonly cause: string; readonly isExpected: boolean } | undefined;

  let hasListenFailed = false;
  let startSpan: OpenSpan | undefined;
  let deploySpan: OpenSpan | undefined;

  const child = spawnChild(options, {
    onActivity() {
      heartbeat.reset();
      if (phase !== "prepared") {
        events.onActivity();
      }
    },
    onFlood: events.onDistrust,
    onListenFailed() {
      hasListenFailed = true;
    },
    onReply(message) {
      if (message.kind === "deployed") {
        handleDeployed(message);
      } else if (message.kind === "deploy-started") {
        isDeployStarted ||= message.id === deploymentId;
      } else if (phase === "starting") {
        startSpan?.end();
        enter("idle");
        events.onReady(message);
      }
    },
    onExit(cause) {
      heartbeat.stop();
      if (phase === "starting") {
        startSpan?.end("ended");
      }
      deploySpan?.end("ended");
      exited.resolve();
      const hadFlows = lastRevision !== undefined || isDeployStarted;
      events.onExit({
        cause: killed?.cause ?? (phase === "stopping" ? "it was stopped" : cause),
        unfinished: isDeployStarted ? unfinished : undefined,
        undelivered: isDeployStarted ? undefined : unfinished,
        lastRevision,
        flowsRanMs: flowsSinceMs === undefined ? 0 : performance.now() - flowsSinceMs,
        hadFlows,
        isLoadFailure: !hadFlows && !hasListenFailed && child.pid !== undefined,
        isExpected: killed?.isExpected ?? phase === "stopping",
      });
    },
  });
  const heartbeat = startHeartbeatMonitor((heartbeatAgeMs) => {
    phaseMs += heartbeatIntervalMs;
    // Flows may block it while they start.
    if (phase === "idle" && isHang(heartbeatAgeMs, options)) {
      events.onDistrust("a flow blocked the event loop");
    }
    const hasNewerDeployment = events.hasNewerDeployment();
    const budgetMs = unfinished ? deploymentBudgetMs(unfinished.revision, options.deadlineMs) : Infinity;
    const cause = killReason(
      { phase, phaseMs, heartbeatAgeMs, isDeployStarted, deploymentBudgetMs: budgetMs, stopMs, hasNewerDeployment },
      options,
    );
    if (cause === undefined || killed !== undefined) {
      return;
    }
    killed = { cause, isExpected: hasNewerDeployment };
    child.kill();
  });
  child.send(initializeMessage(options));

  function enter(next: Phase): void {
    phase = next;
    phaseMs = 0;
  }

  function handleDeployed(deployed: Deployed): void {
    const { id, failure, missingTypes = [], lacksModules, failedNodes = [], rejected } = deployed;
    if (unfinished === undefined || id !== deploymentId || phase !== "deploying") {
      return;
    }
    const deployment = unfinished;
    unfinished = undefined;
    lastRevision = deployment.revision;
    if (rejected !== true) {
      credentials = deployment.revision.credentials;
      if (restartsAllNodes(deployment)) {
        fullSeq = deployment.revision.seq;
      }
    }
    flowsSinceMs ??= performance.now();
    deploySpan?.end(failure === undefined ? undefined : "failed");
    deploySpan = undefined;
    enter("idle");
    const reason = failure ?? describeFailedNodes(failedNodes);
    events.onDeployed(deployment, {
      missingTypes,
      ...(lacksModules && { lacksModules }),
      ...(reason !== undefined && { failure: reason }),
    });
  }

  return {
    processId: () => child.pid(),
    start(trace) {
      startSpan = beginSpan(trace, "runtime.boot");
      enter("starting");
      child.send({ kind: "listen", host: options.host, httpPort: options.port });
    },
    isIdle: () => phase === "idle",
    hasRunNodes: () => hasRunNodes,
    isEmpty: () => lastRevision === undefined && unfinished === undefined,
    currentDeployment: () => unfinished,
    hasApplied({ revision, type }) {
      if (lastRevision === undefined || lastRevision.seq < revision.seq || type === "reload") {
        return false;
      }
      return type !== "full" || fullSeq >= revision.seq;
    },
    deploy(deployment) {
      const { revision, type } = deployment;
      deploySpan = beginSpan(deployment.trace, "runtime.start", {
        "flowgate.rev": revision.rev,
        "flowgate.deployment.type": type,
      });
      unfinished = deployment;
      hasRunNodes ||= revision.flows.count > 0;
      isDeployStarted = false;
      deploymentId += 1;
      enter("deploying");
      child.send(deployMessage(deploymentId, deployment, credentials, deploySpan.context), revision.flows.json);
    },
    async stop(limitMs = stopMs) {
      stopMs = limitMs;
      enter("stopping");
      if (stopMs === 0) {
        child.kill();
      } else {
        child.send({ kind: "stop" });
      }
      await exited.promise;
    },
    kill: () => child.kill(),
  };
}

function describeFailedNodes(nodes: readonly string[]): string | undefined {
  return nodes.length === 0 ? undefined : `nodes logged errors while they were started: ${nodes.join(", ")}`;
}

function initializeMessage(options: CompleteOptions): Initialize {
  const { dir, modulesDir, nodeCloseTimeoutMs, logLevel, allow, network, fence, launcher } = options;
  return {
    kind: "initialize",
    // A process in namespaces ends with the first one there, which ends with this one.
    ...(launcher.level !== "namespaces" && { parentPid: process.pid }),
    userDir: dir,
    ...(modulesDir !== undefined && { modulesDir }),
    nodeCloseTimeoutMs,
    logLevel,
    worker: allow.worker,
    network,
    ...(fence !== undefined && { deadline: fence.deadline() }),
  };
}

/** `previous` are the credentials of the previous deployment. */
function deployMessage(id: number, { type, revision }: Deployment, previous: CredentialSets, trace: Context): Deploy {
  const traceparent = formatTraceparent(trace);
  return {
    kind: "deploy",
    id,
    type,
    credentials: [...revision.credentials].map(([nodeId, set]) => [nodeId, [...set]] as const),
    credentialsChanged: changedCredentials(previous, revision.credentials),
    ...(traceparent !== undefined && { traceparent }),
  };
}
