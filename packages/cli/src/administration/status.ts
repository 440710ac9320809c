import { create } from "@bufbuild/protobuf";
import {
  ConditionKind,
  DeploymentOutcome,
  DeploymentType,
  GetRuntimeResponseSchema,
  type GetSettingsResponse,
  GetSettingsResponseSchema,
  type DiskUsage,
  type Health,
  HealthState,
  HealthStateSchema,
  type GetRuntimeResponse,
  type Isolation,
  IsolationLevelSchema,
  ListNodeStatusesResponseSchema,
  type ProcessUsage,
  type Replica,
  type Revision,
  RevisionSchema,
  RuntimeState,
  RuntimeStateSchema,
} from "@flowgate/client";
import type { ClientContext } from "../client/action.ts";
import { ifPermitted, type ClientSession } from "../client/session.ts";
import { CliFailure, exitCodes } from "../failure.ts";
import { printable } from "../printable.ts";
import type { Output, Styled } from "../output/output.ts";
import {
  describeCaller,
  describeCondition,
  describeRestarts,
  formatEnum,
  formatRecent,
  formatTime,
  shortRev,
  styleOutcome,
} from "../output/values.ts";
import { readNodes } from "./find-node.ts";
import { describeNodeStatuses, type NodeFlags, readNodeStatuses } from "./node-statuses.ts";

/** Prints the state of a service, and with `nodes` that of its nodes. Throws a CliFailure without a message if its flows do not run. */
export async function showStatus(
  { connection, session, output }: ClientContext,
  { nodes = false, ...flags }: NodeFlags & { readonly nodes?: boolean },
): Promise<void> {
  const isDetailed = nodes || flags.tab !== undefined || flags.failing === true;
  const [settings, revision, runtime] = await Promise.all([
    ifPermitted(session, "settings.read", () => session.settings.getSettings({})),
    readActiveRevision(session),
    ifPermitted(session, "runtime.read", () => session.runtime.getRuntime({})),
  ]);
  if (settings === undefined) {
    return showOutcome({ connection, session, output });
  }
  const isRead = isDetailed && (flags.tab !== undefined || output.format === undefined);
  const active = isRead ? await readNodes(session) : [];
  const statuses = isDetailed ? await readNodeStatuses(session, active, flags) : undefined;
  const advice = areRunning(settings) ? [] : await findAdvice(session, settings.runtime?.message ?? "", revision);
  output.messages(
    {
      settings: [GetSettingsResponseSchema, settings],
      ...(revision !== undefined && { revision: [RevisionSchema, revision] as const }),
      ...(runtime !== undefined && { runtime: [GetRuntimeResponseSchema, runtime] as const }),
      ...(statuses !== undefined && { nodes: [ListNodeStatusesResponseSchema, statuses] as const }),
    },
    () =>
      [
        describe(connection.server, settings, { revision, runtime, hasNodes: isDetailed }, output),
        ...advice,
        ...(statuses === undefined ? [] : ["", describeNodeStatuses(statuses, active, output)]),
      ].join("\n"),
  );
  const exitCode = exitCodeOf(settings, runtime?.health);
  if (exitCode !== undefined) {
    throw new CliFailure("", { exitCode });
  }
}

/** Undefined: the flows run without problems. `health` is undefined for those who may not read it. */
function exitCodeOf(settings: GetSettingsResponse, health: Health | undefined): number | undefined {
  const state = health?.state ?? (areRunning(settings) ? HealthState.HEALTHY : HealthState.FAILED);
  switch (state) {
    case HealthState.HEALTHY:
      return undefined;
    case HealthState.DEGRADED:
      return exitCodes.degraded;
    default:
      return exitCodes.notRunning;
  }
}

/** The status for callers who can only read and deploy flows: whether the active flows run. */
async function showOutcome({
  connection,
  session,
  output,
}: Pick<ClientContext, "connection" | "session" | "output">): Promise<void> {
  const plan = await ifPermitted(session, "flows.read", () =>
    session.flows.planFlows({ deploymentType: DeploymentType.RELOAD }),
  );
  if (plan === undefined) {
    // Fails, and says which permission is missing.
    await session.settings.getSettings({});
    return;
  }
  const { rev, activeOutcome: outcome, activeOutcomeMessage: outcomeMessage } = plan;
  const revision = create(RevisionSchema, { rev, outcome, outcomeMessage, active: true });
  output.messages({ revision: [RevisionSchema, revision] }, () =>
    output.fields([
      ["Server", connection.server],
      ["Flows", styleOutcome(outcome)],
      ["Reason", outcomeMessage],
      ["Revision", rev],
    ]),
  );
  if (outcome !== DeploymentOutcome.RUNNING) {
    const isDegraded = outcome === DeploymentOutcome.DEGRADED;
    throw new CliFailure("", { exitCode: isDegraded ? exitCodes.degraded : exitCodes.notRunning });
  }
}

/** Tells how to install modules that the flows lack. */
async function findAdvice(session: ClientSession, message: string, revision: Revision | undefined): Promise<string[]> {
  const [, names = ""] = /\bmissing modules: ([^;]+)/.exec(message) ?? [];
  const install =
    names === "" ? [] : [`Install the modules: flowgate module install ${names.split(", ").map(printable).join(" ")}`];
  const missing = new Set(revision?.missingTypes);
  if (missing.size === 0) {
    return install;
  }
  const { modules = [] } = (await ifPermitted(session, "modules.read", () => session.modules.listModules({}))) ?? {};
  const having = modules.filter(({ types }) => types.some((type) => missing.has(type)));
  const known = new Set(having.flatMap(({ types }) => types));
  const others = [...missing].filter((type) => !known.has(type));
  return [
    ...install,
    ...having.map(({ name, enabled }) =>
      enabled
        ? `${printable(name)} has missing types and is not loaded: see whether modules.allow and modules.deny permit it, and run flowgate runtime restart`
        : `${printable(name)} has missing types and is disabled: flowgate module enable ${printable(name)}`,
    ),
    ...(others.length === 0
      ? []
      : [
          `Install the npm packages with the node types ${others.map(printable).join(", ")}: flowgate module install NAME`,
        ]),
  ];
}

/** Undefined: the user may not read revisions. */
async function readActiveRevision(session: ClientSession): Promise<Revision | undefined> {
  const newest = await ifPermitted(session, "revisions.read", () => session.revisions.listRevisions({ pageSize: 1 }));
  return newest?.revisions[0];
}

/** True if the flows run: here or, if this replica is not to run them, on another one. */
function areRunning({ runtime, replicas }: GetSettingsResponse): boolean {
  const states = replicas.length > 0 ? replicas.map(({ state }) => state) : [runtime?.state];
  return states.includes(RuntimeState.RUNNING) && states.every((state) => state !== undefined && !isTroubled(state));
}

function isTroubled(state: RuntimeState): boolean {
  return state !== RuntimeState.RUNNING && state !== RuntimeState.STANDBY && state !== RuntimeState.DISABLED;
}

function describe(
  server: string,
  { version, runtime, user, replicas }: GetSettingsResponse,
  known: {
    readonly revision: Revision | undefined;
    readonly runtime: GetRuntimeResponse | undefined;
    readonly hasNodes: boolean;
  },
  output: Output,
): string {
  const state = runtime?.state ?? RuntimeState.UNSPECIFIED;
  const port = runtime?.httpPort ?? 0;
  return [
    output.fields(
      [
        ["Server", server],
        ["Flowgate", version],
        ["Runtime", [runtime?.name, runtime?.version].filter(Boolean).join(" ")],
        ["Flows", [describeState(state), describeFailing(known.runtime?.failingNodes ?? 0)]],
        ["Health", describeHealth(known.runtime)],
        ["Reason", runtime?.message ?? ""],
        ...(known.revision === undefined ? [] : describeRevision(known.revision)),
        ["Process", describeProcess(known.runtime?.runtimeProcess)],
        ["Disk", known.runtime?.disk === undefined ? "" : describeDisk(known.runtime.disk)],
        ["Isolation", describeIsolation(runtime?.isolation)],
        ["HTTP-in nodes", port === 0 ? "" : `port ${port}`],
        ["User", user?.username ?? ""],
      ],
      ["Deployed", "Message"],
    ),
    ...describeConditions(known.runtime?.health, known.hasNodes),
    ...(replicas.length > 1 ? ["", describeReplicas(replicas, output)] : []),
  ].join("\n");
}

function describeState(state: RuntimeState): Styled {
  const style = isTroubled(state) ? "red" : "green";
  return { style: state === RuntimeState.STARTING ? "yellow" : style, text: formatEnum(RuntimeStateSchema, state) };
}

/** `degraded, 4 restarts`. Empty if it is not known. */
function describeHealth(runtime: GetRuntimeResponse | undefined): Styled | string {
  const { health, restarts = 0 } = runtime ?? {};
  if (health === undefined) {
    return "";
  }
  const { state } = health;
  const style = state === HealthState.HEALTHY ? "green" : state === HealthState.FAILED ? "red" : "yellow";
  return { style, text: `${formatEnum(HealthStateSchema, state)}${describeRestarts(restarts)}` };
}

/** A line for each condition. */
function describeConditions(health: Health | undefined, hasNodes: boolean): string[] {
  // The list of nodes has their errors.
  const conditions = health?.conditions.filter(({ kind }) => !hasNodes || kind !== ConditionKind.NODES_FAILING) ?? [];
  return conditions.map(describeCondition);
}

/** `, 3 nodes with errors`, after the state of the flows. */
function describeFailing(nodes: number): Styled {
  return { style: "red", text: nodes === 0 ? "" : `, ${nodes} ${nodes === 1 ? "node" : "nodes"} with errors` };
}

/** `heap 40 of 4144 MiB, RSS 113 MiB, CPU 1 %, event loop delay 12 ms`, of the flows. */
function describeProcess(usage: ProcessUsage | undefined): string {
  if (usage === undefined) {
    return "";
  }
  const { heapBytes, heapLimitBytes, rssBytes, cpuShare, eventLoopDelayMs } = usage;
  return [
    `heap ${toMib(heapBytes)} of ${toMib(heapLimitBytes)} MiB`,
    `RSS ${toMib(rssBytes)} MiB`,
    ...(cpuShare === undefined ? [] : [`CPU ${Math.round(cpuShare * 100)} %`]),
    ...(eventLoopDelayMs === undefined ? [] : [`event loop delay ${Math.round(eventLoopDelayMs)} ms`]),
  ].join(", ");
}

/** `74.7 of 252.0 GiB free`, or `512 KiB of 4.0 MiB free`. Empty if the size is not known. */
function describeDisk({ freeBytes, totalBytes }: Pick<DiskUsage, "freeBytes" | "totalBytes">): string {
  const [free, freeUnit] = scale(freeBytes);
  const [total, totalUnit] = scale(totalBytes);
  return totalBytes === 0 ? "" : `${free}${freeUnit === totalUnit ? "" : ` ${freeUnit}`} of ${total} ${totalUnit} free`;
}

/** In the largest unit of which it has one. */
function scale(bytes: number): [value: string, unit: string] {
  const exponent = Math.min(3, Math.floor(Math.log2(Math.max(1, bytes)) / 10));
  return [(bytes / 1024 ** exponent).toFixed(exponent === 0 ? 0 : 1), ["bytes", "KiB", "MiB", "GiB"][exponent] ?? ""];
}

function toMib(bytes: number): number {
  return Math.round(bytes / 1024 ** 2);
}

function describeIsolation(isolation: Isolation | undefined): string {
  if (isolation === undefined) {
    return "";
  }
  const { level, user, message } = isolation;
  const as = user === undefined ? "" : `, user ${user}`;
  return `${formatEnum(IsolationLevelSchema, level)}${as}${message === undefined ? "" : ` (${message})`}`;
}

function describeRevision(revision: Revision): [string, string][] {
  const { rev, createTime, user, message, nodeCount, missingTypes, outcomeMessage } = revision;
  const by = user === "" ? "" : ` by ${describeCaller(revision)}`;
  return [
    ["Revision", rev],
    ["Deployed", `${formatTime(createTime)}${by}`],
    ["Message", message],
    ["Nodes", String(nodeCount)],
    ["Missing types", missingTypes.join(", ")],
    ["Problem", outcomeMessage],
  ];
}

function describeReplicas(replicas: readonly Replica[], output: Output): string {
  const rows = replicas.map(({ name, version, state, rev, message, lastSeenTime }) => [
    name,
    version,
    describeState(state),
    shortRev(rev),
    formatRecent(lastSeenTime),
    message,
  ]);
  const head = ["REPLICA", "VERSION", "FLOWS", "REVISION", "LAST SEEN", "REASON"];
  return output.table(head, rows, ["REPLICA", "REASON"]);
}
