import { rm } from "node:fs/promises";
import { join } from "node:path";
import type { Node } from "../../test/e2e/flow-builders.ts";
import { type Service, startService } from "../../test/e2e/service.ts";
import type { Context } from "../context.ts";
import { findDamage } from "../database.ts";
import { attemptDeployment, checkActive, randomFlows, readActive } from "../deployments.ts";
import type { Control, Drill } from "../drill.ts";
import { strace } from "../programs.ts";
import { attachStrace, countCalls } from "../strace.ts";

export const killAtSystemCalls: Drill = {
  name: "kill-at-system-calls",
  title: "SIGKILL at the system calls of a deployment",
  promise:
    "A deployment is all or nothing: wherever the service is killed, the flows of an acknowledged deployment are active after the restart, and an unacknowledged one is either active as a whole or has changed nothing.",
  method:
    "A deployment is repeated, and strace kills the service at another system call each time: at all calls on the database and a sample of 250 others, also of a deployment that makes SQLite checkpoint. After each restart the active flows, the database file and the audit log are checked.",
  limits: "A killed process leaves its writes in the page cache; [fsync](#fsync) covers machine failures.",
  programs: [strace],
  async run(context) {
    const { random, pick, progress } = context;
    const { tries, control } = await listTries(context);
    const lanes = pick([0], [0, 1]);
    let done = 0;
    const each = () => progress(`${++done} of ${tries.length} deployments`);
    const results = await Promise.all(
      lanes.map(async (lane) => {
        const own = tries.filter((_, at) => at % lanes.length === lane);
        return runLane(own, await context.createFolder(), random, each);
      }),
    );
    const sum = (of: (result: LaneResult) => number) => results.reduce((total, result) => total + of(result), 0);
    return {
      loads: [{ name: "kills during a deployment", count: sum(({ kills }) => kills), minimum: pick(7, 100) }],
      figures: [
        { name: "of them with the deployment active after the restart", value: sum(({ active }) => active), unit: "" },
        {
          name: "deployments acknowledged before the service made the call",
          value: sum(({ passed }) => passed),
          unit: "",
        },
      ],
      violations: results.flatMap(({ violations }) => violations),
      controls: [control],
    };
  },
};

/** A deployment of a text of this length, with a kill at the nth time that a thread makes this call. */
type Try = { readonly length: number; readonly call: string; readonly nth: number };

// Few revisions, since the whole database is checked each time.
const config = { runtime: { mode: "none" }, history: { maxRevisions: 4 } };
const smallLength = 200;
/** More than 1,000 pages of 4 KiB, after which SQLite checkpoints. */
const checkpointLength = 5_500_000;
const storage = ["pwrite64", "fsync", "fdatasync", "ftruncate"];

/** Traces deployments of a service, which is the control afterwards. */
async function listTries({ random, pick, createFolder }: Context): Promise<{ tries: Try[]; control: Control }> {
  const dataDir = await createFolder();
  await using service = await startService({ config, dataDir });
  const list = async (length: number, names: readonly string[] | undefined): Promise<Try[]> => {
    const filter = names === undefined ? [] : [`--trace=${names.join()}`];
    await using traced = await attachStrace(service.pid, filter);
    await attemptDeployment(service, randomFlows(random, length));
    return [...countCalls(await traced.end())].flatMap(([call, count]) =>
      Array.from({ length: count }, (_, at) => ({ length, call, nth: at + 1 })),
    );
  };
  const sample = (tries: readonly Try[], count: number): Try[] => {
    const shuffled = tries.map((each) => ({ each, key: random() })).toSorted((one, other) => one.key - other.key);
    return shuffled.slice(0, count).map(({ each }) => each);
  };
  const isSync = ({ call }: Try) => call !== "pwrite64" && storage.includes(call);
  const isStorage = ({ call }: Try) => storage.includes(call);
  const small = await list(smallLength, pick([...storage, "write"], undefined));
  const large = await list(checkpointLength, storage);
  const isKept = pick(isSync, isStorage);
  const tries = [
    ...small.filter(isKept),
    ...sample(
      small.filter((each) => !isKept(each)),
      pick(5, 250),
    ),
    ...large.filter(isSync),
    ...sample(
      large.filter((each) => !isSync(each)),
      pick(1, 60),
    ),
  ];
  return { tries, control: await lostLog(service, random) };
}

type LaneResult = {
  readonly kills: number;
  readonly active: number;
  readonly passed: number;
  readonly violations: readonly string[];
};

/** Makes the tries one after the other, on one data directory. */
async function runLane(
  tries: readonly Try[],
  dataDir: string,
  random: () => number,
  each: () => void,
): Promise<LaneResult> {
  await using services = new AsyncDisposableStack();
  const start = async () => services.use(await startService({ config, dataDir }));
  let service = await start();
  let before = (await readActive(service)) as Node[];
  let kills = 0;
  let active = 0;
  let passed = 0;
  const violations: string[] = [];
  for (const { length, call, nth } of tries) {
    const attempt = await killDuring(service, randomFlows(random, length), [
      `--trace=${call}`,
      `--inject=${call}:signal=KILL:when=${nth}`,
    ]);
    service = await start();
    const found = await readActive(service);
    const problems = [...checkActive(before, attempt, found), ...(await findDamage(service))];
    violations.push(...problems.map((problem) => `killed at ${call} ${nth}: ${problem}`));
    before = found as Node[];
    kills += attempt.outcome === "acknowledged" ? 0 : 1;
    passed += attempt.outcome === "acknowledged" ? 1 : 0;
    active += attempt.outcome !== "acknowledged" && before[0]?.id === attempt.flows[0]?.id ? 1 : 0;
    each();
  }
  return { kills, active, passed, violations };
}

async function killDuring(service: Service, flows: readonly Node[], injection: readonly string[]) {
  await using _strace = await attachStrace(service.pid, injection);
  const attempt = await attemptDeployment(service, flows);
  await service.kill9();
  return attempt;
}

async function lostLog(service: Service, random: () => number): Promise<Control> {
  const { dataDir } = service;
  // The last deployment was so large that it is not in the log any more.
  const before = (await readActive(service)) as Node[];
  const attempt = await attemptDeployment(service, randomFlows(random, smallLength));
  await service.kill9();
  await rm(join(dataDir, "flowgate.db-wal"));
  await using again = await startService({ config, dataDir });
  return {
    planted: "the write-ahead log is deleted while the service is down",
    found: checkActive(before, attempt, await readActive(again)),
  };
}
