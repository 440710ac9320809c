import type { Duplex } from "node:stream";
import type { Context } from "@opentelemetry/api";
import { type OpenSpan, beginSpan } from "@flowgate/base/spans";
import { type CallOptions, Calls, type Procedure } from "./calls.ts";
import type { CredentialSets } from "@flowgate/flows";
import { findCompileCache } from "./compile-cache.ts";
import type { ContextValues } from "./context-values.ts";
import { type ProcessEvents, type ProcessExit, RuntimeProcess } from "./child-process.ts";
import {
  AppliedDeployments,
  type Deployment,
  deployMessage,
  deploymentBudgetMs,
  toResult,
} from "./deployment-queue.ts";
import { ExitReport } from "./exit-report.ts";
import type { InstanceEvents } from "./instance-events.ts";
import { FlowLog, logAsFlows } from "./flow-log.ts";
import { loadModulesMessage } from "./launch.ts";
import { LoadedModules } from "./loaded-modules.ts";
import { type NodeWrites, maxWriteBytes, parseNodeWrite } from "./node-writes.ts";
import { type HeartbeatMonitor, type Phase, isHang, killReason, startHeartbeatMonitor } from "./liveness.ts";
import {
  type Crashed,
  type FlowsDeployed,
  type FromChild,
  type ModulesLoaded,
  type Ready,
  type StoredSettings,
  heartbeatIntervalMs,
} from "./messages.ts";
import type { CompleteOptions } from "./options.ts";
import { PartReader } from "./part-reader.ts";
import { stopLimitMs } from "./restarts.ts";

/** The data that flows keep in the service's store. */
export type Kept = { readonly context: ContextValues | undefined; readonly writes: NodeWrites | undefined };

/** One process of the flow runtime, to its exit. It loads the flow runtime at once, also while another one runs the flows. */
export class RuntimeInstance {
  readonly #options: CompleteOptions;
  readonly #context: ContextValues | undefined;
  readonly #writes: NodeWrites | undefined;
  readonly #writeParts = new PartReader(maxWriteBytes);
  /** The settings that the process has. */
  readonly #settings: ReadonlyMap<string, string>;
  readonly #events: InstanceEvents;
  readonly #process: RuntimeProcess;
  readonly modules: LoadedModules;
  readonly #heartbeat: HeartbeatMonitor;
  readonly #flowLog: FlowLog;
  readonly #calls: Calls;
  readonly #exited = Promise.withResolvers<void>();
  #phase: Phase = "prepared";
  #phaseMs = 0;
  #stopMs: number;
  #deploymentId = 0;
  /** The sequence numbers of the last two revisions that it has received, by the ids of their deployments. */
  #delivered: readonly (readonly [id: number, seq: number])[] = [];
  /** The credentials of the deployment in progress. */
  #sent: CredentialSets = new Map();
  #unfinished: Deployment | undefined;
  #isDeployStarted = false;
  readonly #applied = new AppliedDeployments();
  #hasRunNodes = false;
  readonly #exitReport = new ExitReport();
  #startSpan: OpenSpan | undefined;
  #deploySpan: OpenSpan | undefined;

  /** The data that flows keep in the service's store; undefined if they keep none. */
  constructor(options: CompleteOptions, { context, writes }: Kept, events: InstanceEvents) {
    this.#options = options;
    this.#context = context;
    this.#writes = writes;
    this.#settings = writes?.settings ?? new Map();
    this.#events = events;
    this.#stopMs = stopLimitMs(options.nodeCloseTimeoutMs);
    this.#flowLog = new FlowLog(options, () => events.onDistrust("a flow flooded the log"));
    this.modules = new LoadedModules(options);
    const processEvents: ProcessEvents = {
      onMessage: (message) => this.#handleMessage(message),
      onFlood: events.onDistrust,
      onExit: (exit) => this.#handleExit(exit),
    };
    this.#process = new RuntimeProcess(options, this.#settings, processEvents, findCompileCache(options));
    this.#calls = new Calls(
      (call, argument, onSent) => this.#process.send(call, argument, onSent),
      (message) => this.#flowLog.write({ level: "error", message: `the flow runtime has failed: ${message}` }),
      options.redaction,
    );
    this.#heartbeat = startHeartbeatMonitor((heartbeatAgeMs) => this.#checkLiveness(heartbeatAgeMs));
  }

  processId(): number | undefined {
    return this.#process.pid();
  }

  /** True if it can receive a deployment now. */
  get isIdle(): boolean {
    return this.#phase === "idle";
  }

  /** True if no deployment was sent to it yet. */
  get isEmpty(): boolean {
    return this.#applied.lastRevision === undefined && this.#unfinished === undefined;
  }

  /** True if it has received a deployment with nodes, whose code may remain after they were stopped. */
  get hasRunNodes(): boolean {
    return this.#hasRunNodes;
  }

  /** The deployment in progress; undefined if it will not be finished, since the process ends. */
  get currentDeployment(): Deployment | undefined {
    return this.#phase === "stopping" ? undefined : this.#unfinished;
  }

  /** True if its last deployment, failed or not, makes this one unnecessary. */
  hasApplied(deployment: Pick<Deployment, "revision" | "type">): boolean {
    return this.#phase !== "stopping" && this.#applied.includes(deployment);
  }

  /** Opens the port of HTTP-in nodes, which no other process may have then. `trace` is the parent of the span of the start. */
  start(trace: Context): void {
    this.#startSpan = beginSpan(trace, "runtime.boot");
    this.#enter("starting");
    if (this.#context === undefined && this.#writes === undefined) {
      this.#listen();
    } else {
      void this.#listenWithKept();
    }
  }

  /** Waits for what the process before has written. */
  async #listenWithKept(): Promise<void> {
    const ended = new AbortController();
    void this.#exited.promise.then(() => ended.abort());
    try {
      await this.#writes?.settle();
      await this.#writes?.refresh();
      this.#listen(await this.#context?.read(ended.signal));
    } catch (error) {
      if (!ended.signal.aborted) {
        throw error;
      }
    }
  }

  #listen(values?: Buffer): void {
    const { host, port: httpPort, certificates } = this.#options;
    const certificate = certificates?.current();
    const settings = changedSettings(this.#settings, this.#writes?.settings ?? this.#settings);
    this.#process.send(
      { kind: "listen", host, httpPort, ...(certificate && { certificate }), ...(settings.length > 0 && { settings }) },
      values,
    );
  }

  /** Must only be called while it is idle. */
  deploy(deployment: Deployment): void {
    const { revision, type, trace } = deployment;
    this.#deploySpan = beginSpan(trace, "runtime.start", {
      "flowgate.rev": revision.rev,
      "flowgate.deployment.type": type,
    });
    this.#unfinished = deployment;
    this.#hasRunNodes ||= revision.flows.count > 0;
    this.#isDeployStarted = false;
    this.#deploymentId += 1;
    this.#enter("deploying");
    if (this.#writes?.isPending === true) {
      void this.#writes.settle().then(() => this.#send(deployment));
    } else {
      this.#send(deployment);
    }
  }

  #send(deployment: Deployment): void {
    if (this.#phase !== "deploying" || this.#unfinished !== deployment) {
      return;
    }
    const { revision, trace } = deployment;
    const sent = this.#writes?.credentialsOf(revision) ?? revision.credentials;
    const learned = this.#options.redaction.learn(sent);
    if (learned !== undefined) {
      void learned.then(() => this.#send(deployment));
      return;
    }
    const id = this.#deploymentId;
    this.#sent = sent;
    this.#delivered = [...this.#delivered.slice(-1), [id, revision.seq]];
    const credentials = { credentials: sent, previous: this.#applied.credentials };
    const reportsStops = this.#options.nodes?.hasLeftErrors() ?? false;
    const message = deployMessage(id, deployment, credentials, reportsStops, this.#deploySpan?.context ?? trace);
    this.#process.send(message, revision.flows.json);
  }

  /** False if modules were replaced or removed: that needs a new process. */
  get canLoadModules(): boolean {
    return this.#phase !== "stopping" && this.modules.canChange;
  }

  /** Must only be called while it is idle, and can load modules. */
  loadModules(): void {
    this.#enter("loading");
    this.modules.begin();
    this.#process.send(loadModulesMessage(this.#options.modulesDir ?? "", this.#options));
  }

  /** True if it runs flows, or starts others. */
  get canBeCalled(): boolean {
    return !this.isEmpty && ["idle", "loading", "deploying"].includes(this.#phase);
  }

  /** Must only be called while it can be called. See `Calls.call`. */
  call<Argument, Result>(
    procedure: Procedure<Argument, Result>,
    argument: Argument,
    options?: CallOptions,
  ): Promise<Result> {
    return this.#calls.call(procedure, argument, options);
  }

  /** Must only be called while it can be called. See `AdminChannel.connect`; undefined if there can be no connection. */
  connectAdmin(): Duplex | undefined {
    return this.#process.connectAdmin();
  }

  /** Kills the process if it has not exited within `stopMs`; at once if that is 0. Resolves when it has exited. */
  async stop(stopMs = this.#stopMs): Promise<void> {
    this.#stopMs = stopMs;
    this.#enter("stopping");
    if (stopMs === 0) {
      this.kill();
    } else {
      this.#process.send({ kind: "stop" });
    }
    await this.#exited.promise;
  }

  kill(): void {
    this.#process.kill();
  }

  #enter(phase: Phase): void {
    this.#phase = phase;
    this.#phaseMs = 0;
  }

  #handleMessage(message: FromChild): void {
    this.#heartbeat.reset();
    if (this.#phase !== "prepared") {
      this.#events.onActivity();
    }
    switch (message.kind) {
      case "heartbeat":
        return;
      case "log":
        this.#flowLog.write(message.entry);
        return;
      case "nodes":
        this.#options.nodes?.onEvents(message);
        return;
      case "measurements":
        // A process that is prepared runs no flows.
        if (this.#phase !== "prepared") {
          this.#options.stats?.add(message);
        }
        return;
      case "spans":
        this.#options.traces?.record(message);
        return;
      case "ready":
        this.#handleReady(message);
        return;
      case "modules-loaded":
        this.#handleModulesLoaded(message);
        return;
      case "deploy-started":
        this.#isDeployStarted ||= message.id === this.#deploymentId;
        return;
      case "deployed":
        this.#handleDeployed(message);
        return;
      case "listen-failed":
        this.#exitReport.recordListenFailure(message, this.#options.port);
        return;
      case "context":
        this.#context?.handlePart(message);
        return;
      case "node-write":
        this.#handleWrite(this.#writeParts.add(message));
        return;
      case "reply":
        this.#calls.handleReply(message);
        return;
      case "crashed":
        this.#handleCrashed(message);
    }
  }

  /** A node stores something. */
  #handleWrite(text: string | undefined): void {
    const write = text === undefined ? undefined : parseNodeWrite(text);
    if (write === undefined) {
      return;
    }
    const { id } = write;
    const reply = (problem?: string): void =>
      this.#process.send({ kind: "node-written", id, ...(problem !== undefined && { problem }) });
    if (this.#writes === undefined) {
      reply("there is no place for it");
      return;
    }
    const sinceSeq = this.#delivered.find(([deployment]) => deployment === write.deployment)?.[1];
    this.#writes.add(write, {
      sinceSeq,
      replaced: write.kind === "credentials" ? this.#sent.get(write.nodeId) : undefined,
      done: (problem) => {
        if (problem === undefined && write.kind === "credentials") {
          this.#applied.hold(write.nodeId, write.set);
          this.#sent = new Map(this.#sent).set(write.nodeId, write.set);
        }
        reply(problem);
      },
    });
  }

  #handleReady(ready: Ready): void {
    if (this.#phase !== "starting") {
      return;
    }
    this.#startSpan?.end();
    this.#startSpan = undefined;
    this.#enter("idle");
    this.#events.onReady(ready);
  }

  #handleModulesLoaded(loaded: ModulesLoaded): void {
    if (this.#phase === "loading") {
      this.#enter("idle");
      this.modules.end(loaded);
      this.#events.onModulesLoaded(loaded);
    }
  }

  #handleDeployed(deployed: FlowsDeployed): void {
    const { id, failure, rejected } = deployed;
    const deployment = this.#unfinished;
    if (deployment === undefined || id !== this.#deploymentId || this.#phase !== "deploying") {
      return;
    }
    const isFirst = this.#applied.lastRevision === undefined;
    this.#unfinished = undefined;
    this.#applied.record(deployment, this.#sent, rejected === true);
    this.#deploySpan?.end(failure === undefined ? undefined : "failed");
    this.#deploySpan = undefined;
    this.#enter("idle");
    this.#events.onDeployed(deployment, toResult(deployed), isFirst);
  }

  #handleCrashed(message: Crashed): void {
    if (this.#exitReport.recordCrash(message)) {
      // A flow can send this message too.
      logAsFlows(this.#options, { level: "fatal", message: `the flow runtime crashed: ${message.cause}` });
    }
  }

  #handleExit(exit: ProcessExit): void {
    this.#heartbeat.stop();
    this.#flowLog.end();
    this.#calls.end();
    this.#startSpan?.end("ended");
    this.#deploySpan?.end("ended");
    this.#exited.resolve();
    if (this.#phase !== "prepared") {
      this.#options.nodes?.onEnd();
    }
    const { lastRevision, ranMs: flowsRanMs } = this.#applied;
    // Modules that it was loading have ended it, and not the flows.
    const hadFlows = this.#phase !== "loading" && (lastRevision !== undefined || this.#isDeployStarted);
    this.#events.onExit({
      ...this.#exitReport.explain(exit, this.#phase === "stopping"),
      unfinished: this.#isDeployStarted ? this.#unfinished : undefined,
      undelivered: this.#isDeployStarted ? undefined : this.#unfinished,
      lastRevision: hadFlows ? lastRevision : undefined,
      flowsRanMs,
      hadFlows,
      isLoadFailure: !hadFlows && !this.#exitReport.hasListenFailed && this.#process.isSpawned,
    });
  }

  #checkLiveness(heartbeatAgeMs: number): void {
    this.#phaseMs += heartbeatIntervalMs;
    // Flows may block it while they start.
    if (this.#phase === "idle" && isHang(heartbeatAgeMs, this.#options)) {
      this.#events.onDistrust("a flow blocked the event loop");
    }
    const hasNewerDeployment = this.#events.hasNewerDeployment();
    const { deadlineMs } = this.#options;
    const kill = killReason(
      {
        phase: this.#phase,
        phaseMs: this.#phaseMs,
        heartbeatAgeMs,
        isDeployStarted: this.#isDeployStarted,
        deploymentBudgetMs: this.#unfinished ? deploymentBudgetMs(this.#unfinished.revision, deadlineMs) : Infinity,
        stopMs: this.#stopMs,
        hasNewerDeployment,
      },
      this.#options,
    );
    if (kill !== undefined && !this.#exitReport.isKilled) {
      this.#exitReport.recordKill(kill, hasNewerDeployment);
      this.kill();
    }
  }
}

function changedSettings(before: ReadonlyMap<string, string>, after: ReadonlyMap<string, string>): StoredSettings {
  const removed = [...before.keys()].filter((name) => !after.has(name)).map((name) => [name, null] as const);
  return [...removed, ...[...after].filter(([name, json]) => before.get(name) !== json)];
}
