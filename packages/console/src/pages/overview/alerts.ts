import { timestampMs } from "@bufbuild/protobuf/wkt";
import {
  ConditionKind,
  DeploymentOutcome,
  type FlowState,
  type GetRuntimeResponse,
  type GetSettingsResponse,
  type ProcessUsage,
  type Replica,
  RuntimeState,
} from "@flowgate/client";
import { describeCaller } from "../../components/describe.ts";
import { formatBytes } from "../../components/format.ts";
import { tabPath } from "../../components/node-path.ts";
import { texts as all } from "../../texts/overview.ts";

const texts = all.alert;

/** What an operator should know of. */
export type Alert = {
  /** The same for as long as it is about the same. */
  readonly key: string;
  readonly tone: "bad" | "warn" | "info";
  readonly title: string;
  readonly detail: string;
  readonly link?: { readonly to: string; readonly label: string };
  /** The replica that is lost. Only this page knows of it, so that the user has to end the alert. */
  readonly replica?: string;
};

/** What the page knows; undefined: nothing, or the user may not read it. */
type Known = {
  readonly runtime: GetRuntimeResponse | undefined;
  readonly settings: GetSettingsResponse | undefined;
  /** Those whose nodes have a state, by urgency. */
  readonly flows: readonly FlowState[];
  readonly openProposals: number;
  /** The names of those that were there since the page was opened, and are not any more. */
  readonly lostReplicas: readonly string[];
  readonly isLive: boolean;
};

/** The most severe first. */
export function findAlerts({ runtime, settings, flows, openProposals, lostReplicas, isLive }: Known): Alert[] {
  const alerts: Alert[] = [
    ...(isLive ? [] : [{ key: "live", tone: "warn", title: texts.notLive, detail: texts.notLiveDetail } as const]),
    ...(runtime === undefined ? [] : [...aboutFlows(runtime), ...aboutRestarts(runtime), ...aboutResources(runtime)]),
    ...aboutNodes(flows),
    ...lostReplicas.map((name): Alert => ({
      key: `lost ${name}`,
      tone: "bad",
      title: texts.lost(name),
      detail: texts.lostDetail,
      replica: name,
    })),
    ...(settings?.replicas.flatMap((replica) => aboutReplica(replica, settings)) ?? []),
  ];
  if (openProposals > 0) {
    const link = { to: "/proposals", label: texts.toProposals };
    alerts.push({ key: "proposals", tone: "info", title: texts.proposals(openProposals), detail: "", link });
  }
  const severity = ["bad", "warn", "info"];
  return alerts.toSorted((one, other) => severity.indexOf(one.tone) - severity.indexOf(other.tone));
}

const modules = { to: "/modules", label: texts.toModules };

function aboutFlows({ runtime, rev, outcome, missingTypes, started, stoppedBy }: GetRuntimeResponse): Alert[] {
  const state = runtime?.state ?? RuntimeState.UNSPECIFIED;
  const message = runtime?.message ?? "";
  if (!started) {
    const who = describeCaller({ user: stoppedBy, tokenName: "" });
    return [{ key: "stopped", tone: "warn", title: texts.stopped, detail: texts.stoppedBy(who) }];
  }
  if (state === RuntimeState.SAFE) {
    const link = { to: `/history/${rev}`, label: texts.toRevision };
    return [{ key: "safe", tone: "bad", title: texts.safe, detail: texts.safeDetail(message), link }];
  }
  if (missingTypes.length > 0) {
    const detail = texts.missingTypesDetail(missingTypes.join(", "));
    return [{ key: "types", tone: "bad", title: texts.missingTypes, detail, link: modules }];
  }
  if (/\bmissing modules: /.test(message)) {
    return [{ key: "modules", tone: "bad", title: texts.missingModules, detail: message, link: modules }];
  }
  if (state === RuntimeState.RESTARTING) {
    return [{ key: "restarting", tone: "bad", title: texts.restarting, detail: message }];
  }
  if (state === RuntimeState.FAILED || isFailure(outcome)) {
    const link = { to: `/history/${rev}`, label: texts.toRevision };
    return [{ key: "failed", tone: "bad", title: texts.failed, detail: message || texts.failedDetail, link }];
  }
  return [];
}

/** Shown for an hour, also if the flows run again. */
function aboutRestarts({ runtime, health }: GetRuntimeResponse): Alert[] {
  const condition = health?.conditions.find(({ kind }) => kind === ConditionKind.RESTARTED);
  // In these states, another alert has the reason.
  if (condition === undefined || runtime?.state === RuntimeState.SAFE || runtime?.state === RuntimeState.RESTARTING) {
    return [];
  }
  const { count, message, flowId } = condition;
  const link =
    flowId === "" ? { to: "/logs?level=error", label: texts.toLogs } : { to: tabPath(flowId), label: texts.toFlow };
  return [{ key: "restarted", tone: "bad", title: texts.restarted(count), detail: message, link }];
}

function aboutNodes(flows: readonly FlowState[]): Alert[] {
  const failing = flows.filter(({ failingNodes }) => failingNodes > 0);
  const [first, ...others] = failing;
  if (first === undefined) {
    return [];
  }
  const { flowId, flowLabel } = first;
  const count = failing.reduce((sum, { failingNodes }) => sum + failingNodes, 0);
  const detail = texts.failingNodesDetail(flowId === "" ? all.tabs.globalNodes : flowLabel || flowId, others.length);
  // Global nodes are on no tab.
  const link =
    flowId === "" ? { to: "/logs?level=error", label: texts.toLogs } : { to: tabPath(flowId), label: texts.toFlow };
  return [{ key: "nodes", tone: "bad", title: texts.failingNodes(count), detail, link }];
}

/** Those that have failed last come first, then those that do not fail, by name. */
export function byUrgency(one: FlowState, other: FlowState): number {
  return urgency(other) - urgency(one) || one.flowLabel.localeCompare(other.flowLabel);
}

function urgency({ errors, lastErrorTime }: FlowState): number {
  return errors === 0 || lastErrorTime === undefined ? 0 : timestampMs(lastErrorTime);
}

function isFailure(outcome: DeploymentOutcome): boolean {
  return outcome === DeploymentOutcome.FAILED || outcome === DeploymentOutcome.CRASHED;
}

const gib = 1024 ** 3;

function aboutResources({ runtimeProcess, serviceProcess, disk }: GetRuntimeResponse): Alert[] {
  const alerts = [...aboutHeap("runtime", runtimeProcess), ...aboutHeap("service", serviceProcess)];
  if (disk !== undefined && (disk.freeBytes < gib || disk.freeBytes < disk.totalBytes / 20)) {
    alerts.push({
      key: "disk",
      tone: disk.freeBytes < gib / 4 || disk.freeBytes < disk.totalBytes / 100 ? "bad" : "warn",
      title: texts.disk,
      detail: texts.diskDetail(formatBytes(disk.freeBytes), formatBytes(disk.totalBytes)),
    });
  }
  return alerts;
}

function aboutHeap(process: "runtime" | "service", usage: ProcessUsage | undefined): Alert[] {
  if (usage === undefined || usage.heapLimitBytes === 0 || usage.heapBytes < usage.heapLimitBytes * 0.9) {
    return [];
  }
  const detail = texts.heapDetail(formatBytes(usage.heapBytes), formatBytes(usage.heapLimitBytes));
  return [{ key: `heap ${process}`, tone: "warn", title: texts.heap[process], detail }];
}

const troubled: ReadonlySet<RuntimeState> = new Set([RuntimeState.FAILED, RuntimeState.SAFE, RuntimeState.RESTARTING]);

function aboutReplica({ self, name, version, state, message }: Replica, settings: GetSettingsResponse): Alert[] {
  const alerts: Alert[] = [];
  if (version !== settings.version) {
    const detail = texts.versionDetail(version, settings.version);
    alerts.push({ key: `version ${name}`, tone: "warn", title: texts.version(name), detail });
  }
  // The runtime of the one that responds has said so already.
  if (!self && troubled.has(state)) {
    alerts.push({ key: `replica ${name}`, tone: "bad", title: texts.replica(name), detail: message });
  }
  return alerts;
}
