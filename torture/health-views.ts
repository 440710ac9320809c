import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { RuntimeService } from "../gen/flowgate/v1/runtime_pb.ts";
import { findAlerts } from "../packages/console/src/pages/overview/alerts.ts";
import { runCommand } from "../test/cli/run-command.ts";
import { call, rpcProtocols } from "../test/e2e/rpc.ts";
import { v2 } from "../test/e2e/rest.ts";
import type { Service } from "../test/e2e/service.ts";
import type { Receiver } from "../test/events/webhooks/receiver.ts";

type Condition = { readonly kind: string; readonly nodeId?: string; readonly lastTime: string };

/** Health as the API returns it. */
export type Health = { readonly state: string; readonly conditions: readonly Condition[] };

/** What each place shows of the same flows. */
export type Views = {
  readonly runtime: Health;
  /** The last event `health`. */
  readonly event: Health;
  readonly webhook: Health;
  /** The states whose gauge is 1. */
  readonly metric: string;
  /** `flowgate status`. */
  readonly status: { readonly state: string; readonly code: number | null };
  /** The alerts of the console, by title. */
  readonly console: readonly string[];
  readonly revision: { readonly outcome: string; readonly createTime: string };
  /** The outcome of the active revision in a plan. */
  readonly plan: string;
  /** A deployment of the flows that are active already. */
  readonly deployment: { readonly outcome: string; readonly code: number | null };
};

/** Reads all places, one after another. They agree once nothing changes meanwhile. */
export async function readViews(service: Service, receiver: Receiver, folder: string): Promise<Views> {
  const get = async <T>(path: string) => (await service.send("GET", path)).json() as T;
  const [{ health: runtime }, { revisions }, { logs }] = await Promise.all([
    get<{ health: Health }>("/runtime"),
    get<{ revisions: Views["revision"][] }>("/revisions?pageSize=1"),
    get<{ logs: { health: Health }[] }>("/logs?kinds=health&pageSize=1"),
  ]);
  const { data } = JSON.parse(receiver.received.at(-1)?.body ?? "{}") as { data?: { health: Health } };
  const metrics = (await service.send("GET", "/metrics")).body;
  const plan = await service.send("POST", "/flows:plan", { headers: { ...v2, "service-deployment-type": "reload" } });
  const [revision, event, webhook] = [revisions[0], logs[0]?.health, data?.health];
  if (revision === undefined || event === undefined || webhook === undefined) {
    throw new Error("there is no event yet");
  }
  return {
    runtime,
    event,
    webhook,
    metric: [...metrics.matchAll(/^flowgate_health\{state="(\w+)"\} 1$/gm)].map(([, state]) => state).join(),
    status: await readStatus(service),
    console: await readAlerts(service),
    revision,
    plan: (plan.json() as { activeOutcome: string }).activeOutcome,
    deployment: await deployAgain(service, folder),
  };
}

async function readStatus({ url }: Service): Promise<Views["status"]> {
  const { code, stdout } = await runCommand(["status", "-o", "json"], { env: { FLOWGATE_SERVER: url } });
  const { runtime } = JSON.parse(stdout) as { runtime: { health: Health } };
  return { state: runtime.health.state, code };
}

async function readAlerts({ url }: Service): Promise<string[]> {
  const outcome = await call(rpcProtocols.Connect(url), RuntimeService.method.getRuntime, {});
  if (!("message" in outcome)) {
    throw new Error(outcome.refused.message);
  }
  const alerts = findAlerts({ runtime: outcome.message, settings: undefined, openProposals: 0, isLive: true });
  return alerts.filter(({ key }) => !key.startsWith("heap")).map(({ title }) => title);
}

async function deployAgain(service: Service, folder: string): Promise<Views["deployment"]> {
  const file = join(folder, "flows.json");
  await writeFile(file, (await service.send("GET", "/flows")).body);
  const { code, stdout } = await runCommand(["deploy", file, "-o", "json"], { env: { FLOWGATE_SERVER: service.url } });
  return { outcome: (JSON.parse(stdout) as { outcome: string }).outcome, code };
}

const statusCodes: Readonly<Record<string, number>> = { healthy: 0, degraded: 5, failed: 4, stopped: 4 };
const deploymentCodes: Readonly<Record<string, number>> = { running: 0, degraded: 5, failed: 4, stopped: 0 };

/** Describes each place that shows something else than `GET /runtime`. */
export function findContradictions(views: Views): string[] {
  const { runtime, event, webhook, metric, status, console: alerts, revision, plan, deployment } = views;
  const outcome = outcomeOf(runtime, Date.parse(revision.createTime));
  const kinds = new Set(runtime.conditions.map(({ kind }) => kind));
  const rows: [place: string, shown: unknown, expected: unknown][] = [
    ["the event", describe(event), describe(runtime)],
    ["the webhook", describe(webhook), describe(runtime)],
    ["the metric", metric, runtime.state],
    ["status", status.state, runtime.state],
    ["the exit code of status", status.code, statusCodes[runtime.state]],
    ["the number of alerts in the console", alerts.length, runtime.state === "stopped" ? 1 : kinds.size],
    ["the history", revision.outcome, outcome],
    ["the plan", plan, outcome],
    ["the outcome of the same deployment", deployment.outcome, outcome],
    ["the exit code of the same deployment", deployment.code, deploymentCodes[outcome]],
  ];
  return rows
    .filter(([, shown, expected]) => shown !== expected)
    .map(([place, shown, expected]) => `${place}: ${String(shown)} instead of ${String(expected)}`);
}

function describe({ state, conditions }: Health): string {
  return [state, ...conditions.map(({ kind, nodeId = "" }) => `${kind} ${nodeId}`).toSorted()].join(", ");
}

const ofRevision: ReadonlySet<string> = new Set(["restarted", "nodes_not_started", "nodes_failing"]);

/** The outcome of the active revision: what was wrong before its deployment is no fault of it. */
function outcomeOf({ state, conditions }: Health, deployedMs: number): string {
  switch (state) {
    case "healthy":
      return "running";
    case "degraded":
      return conditions.some(({ kind, lastTime }) => ofRevision.has(kind) && Date.parse(lastTime) >= deployedMs)
        ? "degraded"
        : "running";
    default:
      return state;
  }
}
