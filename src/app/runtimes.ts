import { getCompileCacheDir } from "node:module";
import { dirname, join, resolve } from "node:path";
import { ROOT_CONTEXT } from "@opentelemetry/api";
import type { Logger } from "pino";
import { createListeners } from "@flowgate/base/listeners";
import { ModuleFollower } from "../deployments/module-follower.ts";
import { ModuleSets } from "../deployments/module-sets.ts";
import { type OutcomeRecorder, openOutcomeRecorder } from "../deployments/outcome-recorder.ts";
import { Probations } from "../deployments/probations.ts";
import { openRetention } from "../deployments/retention.ts";
import { publishHealth } from "../health/events.ts";
import { readEarlierExits } from "../health/earlier-exits.ts";
import { HealthMonitor } from "../health/monitor.ts";
import {
  type Modules,
  openModules,
  completeDeny,
  listsByName,
  type ModuleLists,
  type Disabled,
  readDisabled,
  modulesDirName,
} from "@flowgate/runtime/modules";
import type { Options } from "../options/parse.ts";
import { createClusterRuntime, followRevisions } from "../replicas/cluster-runtime.ts";
import { openRuntimeByMode } from "../replicas/runtime-by-mode.ts";
import type { FlowTraces, Certificate, RuntimeLog, RuntimeOptions, Runtime } from "@flowgate/runtime";
import { keepLast } from "@flowgate/base/manifest";
import type { Certificates } from "../server/http/certificates.ts";
import type { Retention } from "../store/flow-store.ts";
import type { Foundation } from "./foundation.ts";
import { type Live, flowLogLevel } from "./events.ts";
import { readDiskSpace } from "../telemetry/own-usage.ts";
import { type FlowSpanExporter, toSpanRecord } from "../telemetry/span-record.ts";
import { readTraceparent, traceIds } from "@flowgate/base/spans";

/** The runtimes of the flows, and the recording of their outcomes. */
export type Runtimes = {
  readonly runtime: Runtime;
  /** The runtimes of all replicas. */
  readonly allRuntimes: Pick<Runtime, "apply" | "release">;
  readonly monitor: HealthMonitor;
  readonly outcomes: OutcomeRecorder;
  readonly probations: Probations;
  readonly modules: Modules;
  readonly moduleSets: ModuleSets;
  readonly moduleFollower: ModuleFollower;
};

/** Starts the runtime. Resources are added to the stack. */
export async function openRuntimes(
  {
    options,
    log,
    store,
    live,
    analysis,
    stats,
    tracing,
    processFile,
    ports,
    flowCertificates,
  }: Foundation & { readonly live: Live },
  stack: AsyncDisposableStack,
): Promise<Runtimes> {
  const { cluster, desired } = store;
  const modules = stack.use(openConfiguredModules(options, live, log));
  const { mode } = options.runtime;
  const moduleFollower = stack.use(new ModuleFollower({ modules, flows: store.flows, store: store.modules, log }));
  if (mode !== "none") {
    await moduleFollower.start();
  }
  const runtime = stack.use(
    openRuntimeByMode(
      {
        ...options.runtime,
        modulesDir: modulesDirOf(options),
        disabled: disabledOf(options),
        moduleLists: moduleListsOf(options),
        functionLists: (installed) => listsByName(options.modules, installed),
        codeCacheDir: compileCacheDir(),
        processFile,
        protectedPorts: ports.protected,
        hasAdmin: options.nodeRed.port !== undefined,
        contextDatabase: usesContextDatabase(options) ? store.context : undefined,
        nodeStorage: { ...store.flows, settings: store.settings, onCredentials: live.redaction.learnWritten },
        certificates: flowCertificates && followCertificates(flowCertificates),
        stats,
        measuresNodes: options.metrics.nodes,
        traces: tracing.flows && traceFlows(tracing.flows),
        hidden: findHidden(options),
        modulesProblem: () => moduleFollower.problem(),
        active: async () => store.flows.active(),
        desired,
        log: createRuntimeLog(log, live.flows),
        redaction: live.redaction,
        nodes: live.nodeObserver,
        logLevel: flowLogLevel(options),
      },
      {
        ...options.runtime,
        cluster,
        activeSeq: () => store.flows.active().seq,
        isPreparing: () => moduleFollower.isPreparing(),
        log,
      },
    ),
  );
  stack.use(moduleFollower.onInstalled(() => void runtime.applyModules(store.flows.active())));
  live.follow(runtime);
  const earlierExits = await readEarlierExits(live.journal, live.hub.runtime).catch((err: unknown) => {
    log.warn({ err }, "the exits of the flow runtime within the last hour can't be read");
    return [];
  });
  const monitor = stack.use(
    new HealthMonitor({
      earlierExits,
      runtime,
      nodes: live.flows.nodes,
      store: store.flows,
      desired,
      cluster,
      disk: () => readDiskSpace(options.dataDir),
    }),
  );
  const rev = (): string => store.flows.active().rev;
  stack.use(publishHealth({ hub: live.hub, monitor, runtime, desired, rev }));
  const prepare = async (): Promise<void> => {
    // A replica that never runs flows needs no modules.
    if (mode !== "none" && (await moduleFollower.prepare())) {
      runtime.reloadModules();
    }
  };
  stack.use(followRevisions(store.flows, runtime, prepare));
  const moduleSets = new ModuleSets({
    modules,
    flows: store.flows,
    store: store.modules,
    audit: store.audit,
    runtime,
    onIneffective: () => moduleFollower.follow(),
    log,
  });
  const { deadlineMs } = options.runtime;
  const allRuntimes = cluster === undefined ? runtime : createClusterRuntime({ runtime, cluster, desired, deadlineMs });
  const followed = { store: store.flows, runtime, modules: moduleSets, cluster, desired, log };
  const outcomes = stack.use(
    openOutcomeRecorder({ ...followed, monitor, onRecorded: (entry) => live.deployments.recorded(entry) }),
  );
  const probations = stack.use(new Probations({ ...followed, analysis, hub: live.hub, deadlineMs, outcomes }));
  await probations.resume();
  stack.use(openRetention(store.flows, toRetention(options.history), log));
  return { runtime, allRuntimes, monitor, outcomes, probations, modules, moduleSets, moduleFollower };
}

/**
 * Returns the folder in which the code of this process is cached; undefined if it is not. Node adds a folder for its
 * version.
 */
function compileCacheDir(): string | undefined {
  const folder = getCompileCacheDir();
  return folder && dirname(folder);
}

/** The modules in the data directory. What changes them is published as events. */
function openConfiguredModules({ dataDir, modules }: Options, { hub }: Pick<Live, "hub">, log: Logger): Modules {
  return openModules({
    ...modules,
    dataDir,
    log: (message, fields) => log.warn(fields, message),
    onProgress: (value) => void hub.publish({ kind: { case: "module", value } }),
  });
}

/** The folder of added modules; undefined: none are loaded. */
export function modulesDirOf({ dataDir, runtime }: Pick<Options, "dataDir" | "runtime">): string | undefined {
  return runtime.modules ? join(dataDir, modulesDirName) : undefined;
}

/** Returns a reader of the disabled modules and nodes, needed even if no modules are loaded. */
export function disabledOf({ dataDir }: Pick<Options, "dataDir">): () => Disabled {
  return keepLast(() => readDisabled(join(dataDir, modulesDirName)));
}

/** Returns the allow and deny lists of modules. */
export function moduleListsOf({ modules }: Pick<Options, "modules">): ModuleLists {
  return { allow: modules.allow, deny: completeDeny(modules) };
}

function traceFlows(exporter: FlowSpanExporter): FlowTraces {
  return {
    sampleRatio: exporter.sampleRatio,
    record: ({ spans, dropped }) => exporter.record(spans.map(toSpanRecord), dropped),
  };
}

function usesContextDatabase({ runtime }: Options): boolean {
  return Object.values(runtime.contextStorage).some((each) => typeof each === "object" && each.module === "database");
}

/** Each runtime process follows the certificate while it runs. */
function followCertificates(certificates: Certificates): RuntimeOptions["certificates"] {
  const listeners = createListeners<Certificate>();
  certificates.onChange((next) => listeners.notify(next as Certificate));
  return { current: () => certificates.current() as Certificate, onChange: (listener) => listeners.add(listener) };
}

/** The paths of the service, if isolated flows could see them. */
function findHidden({ dataDir, tls, runtime }: Options): string[] {
  const files = [process.env["FLOWGATE_CONFIG"], tls?.keyFile, runtime.http.tls?.keyFile];
  return [dataDir, ...files.flatMap((path) => path || [])].map((path) => resolve(path));
}

/**
 * Writes the log of the runtime and the flows to the service's log, and the flows' log to their events. `source` marks
 * the lines as untrusted.
 */
function createRuntimeLog(log: Logger, flows: Live["flows"]): RuntimeLog {
  const logs = { runtime: log.child({ source: "runtime" }), flows: log.child({ source: "flows" }) };
  return (entry, source) => {
    const { level, message, traceparent, ...fields } = entry;
    logs[source][level]({ ...fields, ...traceIds(readTraceparent(ROOT_CONTEXT, traceparent)) }, message);
    if (source === "flows") {
      flows.publishLog(entry);
    } else if (entry.dropped !== undefined) {
      flows.drop("log", entry.dropped);
    }
  };
}

function toRetention({ maxRevisions, maxAgeDays }: Options["history"]): Retention {
  return { maxCount: maxRevisions, maxAgeMs: maxAgeDays === undefined ? undefined : maxAgeDays * 24 * 60 * 60_000 };
}
