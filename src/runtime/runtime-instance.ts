import type { Context } from "@opentelemetry/api";
import type { CredentialSets } from "../flows/configuration.ts";
import type { Revision } from "../store/store.ts";
import { type OpenSpan, beginSpan, formatTraceparent } from "../telemetry/trace.ts";
import { spawnChild } from "./child-process.ts";
import { type Deployment, changedCredentials, deploymentBudgetMs, isFull } from "./deployment.ts";
import { type Deployed, heartbeatIntervalMs } from "./messages.ts";
import type { CompleteOptions } from "./options.ts";
import { startHeartbeatMonitor } from "./heartbeat-monitor.ts";

export type InstanceEvents = {
  /** It gave a sign of life. */
  readonly heard: () => void;
  readonly booted: (httpPort: number) => void;
  /** `failure` is why the runtime can't start these flows. */
  readonly deployed: (deployment: Deployment, failure: string | undefined, missingTypes: readonly string[]) => void;
  readonly over: (end: InstanceExit) => void;
  /** Whether something newer waits than what the child is busy with. */
  readonly isOvertaken: () => boolean;
};

export type InstanceExit = {
  readonly cause: string;
  /** The deployment that was under way. */
  readonly unfinished: Deployment | undefined;
  /** A deployment that the child never saw: what ran before has ended it. */
  readonly unseen: Deployment | undefined;
  /** How long it had run flows. */
  readonly ranMs: number;
  /** Whether flows were handed over to it, so that they can be to blame. */
  readonly hadFlows: boolean;
  /** It was told to stop, or ended for something newer. */
  readonly isWanted: boolean;
};

/** One child from its start to its end. */
export type RuntimeInstance = {
  /** Whether it can take a deployment now. */
  isIdle(): boolean;
  /** Whether it has been given no flows yet. */
  isEmpty(): boolean;
  deploying(): Deployment | undefined;
  /** Whether what it runs, or has refused to run, leaves nothing to do for this one. */
  hasDone(deployment: Pick<Deployment, "revision" | "type">): boolean;
  /** One at a time: only while it is idle. */
  deploy(deployment: Deployment): void;
  /** Resolves when the process is gone. */
  stop(): Promise<void>;
  kill(): void;
};

type Phase = "booting" | "idle" | "deploying" | "stopping";

/** `trace` is where its start belongs. */
export function startInstance(options: CompleteOptions, events: InstanceEvents, trace: Context): RuntimeInstance {
  const ended = Promise.withResolvers<void>();
  let phase: Phase = "booting";
  let phaseMs = 0;
  let unfinished: Deployment | undefined;
  let hasBegun = false;
  let deploymentId = 0;
  let answered: Revision | undefined;
  let credentials: CredentialSets = new Map();
  /** The newest revision that a start of every node has seen. */
  let fullSeq = -1;
  let runningSinceMs: number | undefined;
  let killed: { readonly cause: string; readonly isOvertaken: boolean } | undefined;

  const boot = beginSpan(trace, "runtime.boot");
  let start: OpenSpan | undefined;

  const child = spawnChild(options, {
    heard() {
      silence.heard();
      events.heard();
    },
    answered(message) {
      if (message.kind === "deployed") deployed(message);
      else if (message.kind === "begun") hasBegun ||= message.id === deploymentId;
      else if (phase === "booting") {
        boot.end();
        enter("idle");
        events.booted(message.httpPort);
      }
    },
    gone(how) {
      silence.stop();
      if (phase === "booting") boot.end("ended");
      start?.end("ended");
      ended.resolve();
      const ranMs = runningSinceMs === undefined ? 0 : performance.now() - runningSinceMs;
      events.over({
        cause: killed?.cause ?? (phase === "stopping" ? "it was stopped" : how),
        unfinished: hasBegun ? unfinished : undefined,
        unseen: hasBegun ? undefined : unfinished,
        ranMs,
        hadFlows: answered !== undefined || hasBegun,
        isWanted: killed?.isOvertaken ?? phase === "stopping",
      });
    },
  });
  const silence = startHeartbeatMonitor((silentMs) => {
    phaseMs += heartbeatIntervalMs;
    const reason = reasonToKill(silentMs);
    if (reason === undefined || killed !== undefined) return;
    killed = { cause: reason, isOvertaken: events.isOvertaken() };
    child.kill();
  });
  child.send({
    kind: "boot",
    userDir: options.dir,
    host: options.host,
    httpPort: options.port,
    nodeCloseTimeoutMs: options.nodeCloseTimeoutMs,
    logLevel: options.logLevel,
    worker: options.allow.worker,
  });

  function enter(next: Phase): void {
    phase = next;
    phaseMs = 0;
  }

  function reasonToKill(silentMs: number): string | undefined {
    const isSilent = silentMs >= options.unresponsiveMs;
    switch (phase) {
      case "booting":
        return phaseMs >= options.bootDeadlineMs ? "it was not ready in time" : undefined;
      case "idle":
        return isSilent ? "a flow blocked it" : undefined;
      case "deploying":
        if (isSilent && !hasBegun) return "a flow blocked it";
        // Large flows block it lawfully while they start; but a correction must not wait for that.
        if (isSilent && events.isOvertaken()) return "the flows blocked it while they started";
        return unfinished && phaseMs >= deploymentBudgetMs(unfinished.revision, options.deadlineMs)
          ? "the flows did not start in time"
          : undefined;
      case "stopping":
        return isSilent || phaseMs >= options.nodeCloseTimeoutMs + 1_000 ? "it did not stop in time" : undefined;
    }
  }

  function deployed({ id, failure, missingTypes = [], rejected }: Deployed): void {
    if (unfinished === undefined || id !== deploymentId || phase !== "deploying") return;
    const deployment = unfinished;
    unfinished = undefined;
    answered = deployment.revision;
    if (rejected !== true) {
      credentials = deployment.revision.credentials;
      if (isFull(deployment)) fullSeq = deployment.revision.seq;
    }
    runningSinceMs ??= performance.now();
    start?.end(failure === undefined ? undefined : "failed");
    start = undefined;
    enter("idle");
    events.deployed(deployment, failure, missingTypes);
  }

  return {
    isIdle: () => phase === "idle",
    isEmpty: () => answered === undefined && unfinished === undefined,
    deploying: () => unfinished,
    hasDone({ revision, type }) {
      if (answered === undefined || answered.seq < revision.seq || type === "reload") return false;
      return type !== "full" || fullSeq >= revision.seq;
    },
    deploy(deployment) {
      const { revision, type } = deployment;
      start = beginSpan(deployment.trace, "runtime.start", {
        "flowgate.rev": revision.rev,
        "flowgate.deployment.type": type,
      });
      const traceparent = formatTraceparent(start.context);
      unfinished = deployment;
      hasBegun = false;
      deploymentId += 1;
      enter("deploying");
      child.send(
        {
          kind: "deploy",
          id: deploymentId,
          type,
          credentials: [...revision.credentials].map(([id, set]) => [id, [...set]] as const),
          credentialsChanged: changedCredentials(credentials, revision.credentials),
          ...(traceparent !== undefined && { traceparent }),
        },
        revision.flows.json,
      );
    },
    async stop() {
      enter("stopping");
      child.send({ kind: "stop" });
      await ended.promise;
    },
    kill: () => child.kill(),
  };
}
