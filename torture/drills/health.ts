import { chmod } from "node:fs/promises";
import { tmpdir } from "node:os";
import { deploy, tryDeploy } from "../../test/e2e/deploy.ts";
import { endpoint, functionNode, type Node, tab } from "../../test/e2e/flow-builders.ts";
import { eventually, type Service, startService } from "../../test/e2e/service.ts";
import { openReceiver, type Receiver } from "../../test/live/webhooks/receiver.ts";
import { openInstallation } from "../../test/postgres/installation.ts";
import { openServer } from "../../test/postgres/server.ts";
import type { Context } from "../context.ts";
import type { Control, Drill } from "../drill.ts";
import { findContradictions, type Health, readViews, type Views } from "../health-views.ts";
import { ipcrm } from "../programs.ts";

export const health: Drill = {
  name: "health",
  title: "One health in all places",
  promise: "All views of the flows' health agree: each problem is shown everywhere, and none after it has ended.",
  method:
    "Failures are acted out with the real runtime: nodes that fail, are denied or removed, flows that leak, block, crash or lack modules, stopped flows, a killed replica. After each failure and its undo, nine views are compared: `GET /runtime`, history, plan, event, webhook, metric, console, `flowgate status` and a deployment, with their exit codes.",
  programs: [ipcrm],
  async run(context) {
    const one = await actOut(context);
    const replicas = await loseReplica(context);
    const views = [...one.views, replicas.views];
    return {
      loads: [
        { name: "stories", count: one.stories + 1, minimum: stories.length + 1 },
        { name: "comparisons of all places", count: views.length, minimum: 2 * stories.length },
      ],
      figures: [],
      violations: [...one.violations, ...replicas.violations],
      controls: plant(views),
    };
  },
};

type Story = {
  readonly title: string;
  readonly flows: readonly Node[];
  /** The seconds for which the deployment waits. */
  readonly wait?: string;
  /** What happens once they are deployed. */
  readonly act?: (service: Service) => Promise<unknown>;
  readonly state: string;
  /** Conditions that hold, apart from exits of earlier stories. */
  readonly kinds: readonly string[];
};

/** The service leads to safe mode after so many exits. */
const maxExits = 5;
const inject = (service: Service) => service.send("POST", "/runtime/nodes/n:inject");
const onMessage = (func: string): Node[] => [tab("T"), functionNode("n", { z: "T", func })];

/** Those with exits of the process come last: the condition remains for an hour. */
const stories: readonly Story[] = [
  { title: "flows that run", flows: [], state: "healthy", kinds: [] },
  {
    title: "a node that is denied what it needs",
    flows: [tab("T"), { id: "n", type: "watch", z: "T", x: 1, y: 1, files: "/etc", recursive: true, wires: [[]] }],
    state: "degraded",
    kinds: ["nodes_not_started", "nodes_failing"],
  },
  {
    title: "an error a second after the start",
    flows: [tab("T"), functionNode("n", { z: "T", initialize: "setTimeout(() => node.error('late'), 1_000);" })],
    wait: "3",
    state: "degraded",
    kinds: ["nodes_failing"],
  },
  {
    title: "a flood of errors",
    flows: onMessage("for (let at = 0; at < 20_000; at++) node.error(`error ${at}`);"),
    act: inject,
    state: "degraded",
    kinds: ["nodes_failing"],
  },
  {
    title: "a failing node that is removed",
    flows: onMessage("node.error('failed');"),
    async act(service) {
      await inject(service);
      await eventually(async () => expectState(await readHealth(service), "degraded", ["nodes_failing"]));
      await deploy(service, { flows: [...good, tab("T")] }, "nodes");
    },
    state: "healthy",
    kinds: [],
  },
  {
    title: "a node type that is not installed",
    flows: [tab("T"), { id: "n", type: "not-installed", z: "T", x: 1, y: 1, wires: [] }],
    state: "failed",
    kinds: ["missing_types"],
  },
  {
    title: "a module that is not installed",
    flows: [tab("T"), { ...functionNode("n", { z: "T" }), libs: [{ var: "x", module: "not-installed" }] }],
    state: "failed",
    kinds: ["missing_modules"],
  },
  {
    title: "flows that are stopped",
    flows: [tab("T")],
    act: (service) => service.send("POST", "/runtime:stop"),
    state: "stopped",
    kinds: [],
  },
  {
    title: "an error that nothing catches",
    flows: onMessage("void Promise.reject(new Error('uncaught'));"),
    act: inject,
    state: "degraded",
    kinds: ["restarted", "nodes_failing"],
  },
  {
    title: "a leak",
    flows: onMessage("const kept = []; setInterval(() => { for (let at = 0; at < 1e5; at++) kept.push({ at }); }, 1);"),
    act: inject,
    state: "degraded",
    kinds: ["restarted"],
  },
  {
    title: "a blocked event loop",
    flows: onMessage("for (;;);"),
    act: inject,
    state: "degraded",
    kinds: ["restarted", "nodes_failing"],
  },
  {
    title: "a crash loop",
    flows: [
      tab("T"),
      functionNode("n", { z: "T", initialize: "setTimeout(() => void Promise.reject(new Error('again')), 100);" }),
    ],
    state: "failed",
    kinds: ["safe_mode", "restarted", "nodes_failing"],
  },
];

const good = endpoint("/works", `msg.payload = "works"`);
const quick = { restart: { backoffMs: 1, maxBackoffMs: 1 }, safeMode: { exits: maxExits }, maxOldSpaceMb: 128 };

async function actOut({ createFolder, progress }: Context) {
  await using receiver = await openReceiver();
  const config = { ...configOf(receiver), runtime: { ...quick, freshProcess: "never" } };
  await using service = await startService({ config, dataDir: await createFolder(), ownProcess: true });
  const folder = await createFolder();
  const violations: string[] = [];
  const views: Views[] = [];
  const compare = async (story: string, state: string, kinds: readonly string[]): Promise<void> => {
    try {
      await eventually(async () => {
        const shown = await readViews(service, receiver, folder);
        expectState(shown.runtime, state, kinds);
        expectNone(findContradictions(shown));
        views.push(shown);
      }, limitMs);
    } catch (error) {
      violations.push(`${story}: ${error instanceof Error ? error.message : String(error)}`);
    }
  };
  await deploy(service, { flows: good });
  for (const [at, { title, flows, wait = "0", act, state, kinds }] of stories.entries()) {
    await tryDeploy(service, { flows: [...good, ...flows] }, "nodes", { "service-deployment-wait": wait });
    await act?.(service);
    await compare(title, state, kinds);
    await service.send("POST", "/runtime:start");
    const { revisions } = (await service.send("GET", "/revisions?pageSize=1")).json() as {
      revisions: { rev: string }[];
    };
    await service.send("POST", "/flows:undo");
    const undone = (await service.send("GET", `/revisions/${revisions[0]?.rev}`)).json() as { outcome: string };
    if (undone.outcome !== "undone") {
      violations.push(`${title}: the outcome is ${undone.outcome} after the undo`);
    }
    // An exit is known for an hour.
    const hasExited = views.some(({ runtime }) => runtime.conditions.some(({ kind }) => kind === "restarted"));
    await compare(`the undo of ${title}`, hasExited ? "degraded" : "healthy", hasExited ? ["restarted"] : []);
    progress(`${at + 1} of ${stories.length} stories`);
  }
  return { stories: stories.length, violations, views };
}

async function loseReplica({ createFolder, progress }: Context): Promise<{ violations: string[]; views: Views }> {
  // The server runs as another user if this is root.
  await chmod(tmpdir(), 0o711);
  await using installation = await openInstallation();
  await using server = await openServer(installation);
  const database = await server.createDatabase();
  await using receiver = await openReceiver();
  const config = {
    ...configOf(receiver),
    store: database.url,
    credentialSecret: "a secret that both replicas share",
    runtime: { ...quick, mode: "one", leaseMs: 2_000 },
  };
  await using services = new AsyncDisposableStack();
  const start = async () =>
    services.use(await startService({ config, dataDir: await createFolder(), ownProcess: true }));
  const holder = await start();
  await deploy(holder, { flows: good });
  const other = await start();
  await eventually(async () => {
    const { replicas } = (await holder.send("GET", "/settings")).json() as { replicas?: readonly unknown[] };
    if (replicas?.length !== 2) {
      throw new Error("the other replica is not known yet");
    }
  });
  await other.kill9();
  const folder = await createFolder();
  const violations: string[] = [];
  const views = await eventually(async () => {
    const shown = await readViews(holder, receiver, folder);
    expectState(shown.runtime, "degraded", ["replica_lost"]);
    expectNone(findContradictions(shown));
    return shown;
  }, limitMs);
  progress("a replica was lost");
  return { violations, views };
}

/** After this time, places have to agree. */
const limitMs = 60_000;

function configOf({ port }: Receiver) {
  const target = { url: `http://127.0.0.1:${port}/hook`, kinds: ["health"] };
  return { webhooks: { network: { allow: ["127.0.0.1"] }, targets: [target] } };
}

async function readHealth(service: Service): Promise<Health> {
  return ((await service.send("GET", "/runtime")).json() as { health: Health }).health;
}

function expectState({ state, conditions }: Health, expected: string, kinds: readonly string[]): void {
  const missing = kinds.filter((kind) => !conditions.some((condition) => condition.kind === kind));
  const others = conditions.map(({ kind }) => kind).filter((kind) => kind !== "restarted" && !kinds.includes(kind));
  if (state !== expected || missing.length > 0 || others.length > 0) {
    throw new Error(
      `${state} (${conditions.map(({ kind }) => kind).join(", ")}) instead of ${expected} (${kinds.join(", ")})`,
    );
  }
}

function expectNone(contradictions: readonly string[]): void {
  if (contradictions.length > 0) {
    throw new Error(contradictions.join("; "));
  }
}

/** Each place shows what it showed in another story. */
function plant(views: readonly Views[]): Control[] {
  const healthy = views.find(({ runtime }) => runtime.state === "healthy");
  const failed = views.find(({ runtime }) => runtime.state === "failed");
  if (healthy === undefined || failed === undefined) {
    return [];
  }
  return (Object.keys(healthy) as (keyof Views)[]).map((place) => ({
    planted: `the place ${place} shows flows that do not run as healthy`,
    found: findContradictions({ ...failed, [place]: healthy[place] }),
  }));
}
