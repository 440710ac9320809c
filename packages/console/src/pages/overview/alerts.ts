import { timestampMs } from "@bufbuild/protobuf/wkt";
import {
  type Condition,
  ConditionKind,
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

export type Alert = {
  /** Stays the same while the alert has the same subject. */
  readonly key: string;
  readonly tone: "bad" | "warn" | "info";
  readonly title: string;
  readonly detail: string;
  readonly link?: { readonly to: string; readonly label: string };
};

/** The data available to the page; undefined: not loaded, or the user may not read it. */
type Known = {
  readonly runtime: GetRuntimeResponse | undefined;
  readonly settings: GetSettingsResponse | undefined;
  readonly openProposals: number;
  readonly isLive: boolean;
};

/** The most severe first. */
export function findAlerts({ runtime, settings, openProposals, isLive }: Known): Alert[] {
  const alerts: Alert[] = [
    ...(isLive
      ? []
      : [
          {
            key: "live",
            tone: "warn",
            title: "This page is not live",
            detail:
              "The connection to the service is interrupted. What is shown may be out of date until it is there again.",
          } as const,
        ]),
    ...(runtime === undefined ? [] : [...aboutHealth(runtime), ...aboutResources(runtime)]),
    ...(settings?.replicas.flatMap((replica) => aboutReplica(replica, settings)) ?? []),
  ];
  if (openProposals > 0) {
    const link = { to: "/proposals", label: "Review" };
    alerts.push({ key: "proposals", tone: "info", title: all.alert.proposals(openProposals), detail: "", link });
  }
  const severity = ["bad", "warn", "info"];
  return alerts.toSorted((one, other) => severity.indexOf(one.tone) - severity.indexOf(other.tone));
}

/** The health of the flows: an alert for each kind of conditions. */
function aboutHealth({ rev, failingNodes, health, started, stoppedBy }: GetRuntimeResponse): Alert[] {
  if (!started) {
    const who = describeCaller({ user: stoppedBy, tokenName: "" });
    return [{ key: "stopped", tone: "warn", title: "The flows are stopped", detail: all.alert.stoppedBy(who) }];
  }
  const kinds = Map.groupBy(health?.conditions ?? [], ({ kind }) => kind);
  return [...kinds.values()].flatMap((conditions) => {
    const [first, ...others] = conditions;
    return first === undefined ? [] : [toAlert(first, others, { rev, failingNodes })];
  });
}

function toAlert(
  condition: Condition,
  others: readonly Condition[],
  { rev, failingNodes }: Pick<GetRuntimeResponse, "rev" | "failingNodes">,
): Alert {
  const { kind, count, message, flowId, flowLabel } = condition;
  // Global nodes are on no tab.
  const toFlow =
    flowId === "" ? { to: "/logs?level=error", label: "See the log" } : { to: tabPath(flowId), label: "See the flow" };
  const toRevision = { to: `/history/${rev}`, label: "See the revision" };
  const toModules = { to: "/modules", label: "Install modules" };
  switch (kind) {
    case ConditionKind.SAFE_MODE:
      return {
        key: "safe",
        tone: "bad",
        title: "Safe mode: the flows are not started",
        detail: all.alert.safeDetail(message),
        link: toRevision,
      };
    case ConditionKind.MISSING_TYPES:
      return { key: "types", tone: "bad", title: "Node types are missing", detail: message, link: toModules };
    case ConditionKind.MISSING_MODULES:
      return { key: "modules", tone: "bad", title: "Modules are missing", detail: message, link: toModules };
    case ConditionKind.RESTARTED:
      return { key: "restarted", tone: "bad", title: all.alert.restarted(count), detail: message, link: toFlow };
    case ConditionKind.NODES_FAILING: {
      const title = all.alert.failingNodes(Math.max(failingNodes, 1 + others.length));
      const tabs = new Set(others.map((other) => other.flowId)).difference(new Set([flowId]));
      const tab = flowId === "" ? all.tabs.globalNodes : flowLabel || flowId;
      return { key: "nodes", tone: "bad", title, detail: all.alert.failingNodesDetail(tab, tabs.size), link: toFlow };
    }
    case ConditionKind.DISK:
      return { key: "disk", tone: "bad", title: "The disk is nearly full", detail: message };
    case ConditionKind.REPLICA_LOST:
      return { key: "lost", tone: "bad", title: all.alert.lost(count), detail: message };
    case ConditionKind.NO_RUNNER:
      return {
        key: "runner",
        tone: "bad",
        title: "No replica runs the flows",
        detail: "Start one whose configuration permits it to run flows.",
      };
    default:
      return {
        key: `condition ${kind}`,
        tone: "bad",
        title: "The active revision does not run as it should",
        detail: message,
        link: toRevision,
      };
  }
}

/** Sorts failing flows first, the latest failure on top; then the others by name. */
export function byUrgency(one: FlowState, other: FlowState): number {
  return urgency(other) - urgency(one) || one.flowLabel.localeCompare(other.flowLabel);
}

function urgency({ errors, lastErrorTime }: FlowState): number {
  return errors === 0 || lastErrorTime === undefined ? 0 : timestampMs(lastErrorTime);
}

function aboutResources({ runtimeProcess, serviceProcess }: GetRuntimeResponse): Alert[] {
  return [...aboutHeap("runtime", runtimeProcess), ...aboutHeap("service", serviceProcess)];
}

function aboutHeap(process: "runtime" | "service", usage: ProcessUsage | undefined): Alert[] {
  if (usage === undefined || usage.heapLimitBytes === 0 || usage.heapBytes < usage.heapLimitBytes * 0.9) {
    return [];
  }
  const detail = all.alert.heapDetail(formatBytes(usage.heapBytes), formatBytes(usage.heapLimitBytes));
  return [{ key: `heap ${process}`, tone: "warn", title: all.alert.heap[process], detail }];
}

const troubled: ReadonlySet<RuntimeState> = new Set([RuntimeState.FAILED, RuntimeState.SAFE, RuntimeState.RESTARTING]);

function aboutReplica({ self, name, version, state, message }: Replica, settings: GetSettingsResponse): Alert[] {
  const alerts: Alert[] = [];
  if (version !== settings.version) {
    const detail = all.alert.versionDetail(version, settings.version);
    alerts.push({ key: `version ${name}`, tone: "warn", title: all.alert.version(name), detail });
  }
  // The runtime of the one that responds has said so already.
  if (!self && troubled.has(state)) {
    alerts.push({ key: `replica ${name}`, tone: "bad", title: all.alert.replica(name), detail: message });
  }
  return alerts;
}
