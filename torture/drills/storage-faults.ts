import { execFileSync } from "node:child_process";
import { isDeepStrictEqual } from "node:util";
import type { Node } from "../../test/e2e/flow-builders.ts";
import { eventually, type Service, startService } from "../../test/e2e/service.ts";
import type { Context } from "../context.ts";
import { findDamage } from "../database.ts";
import { type Attempt, attemptDeployment, checkActive, randomFlows, readActive } from "../deployments.ts";
import type { Control, Drill } from "../drill.ts";
import { preload } from "../preload.ts";
import { prlimit, strace } from "../programs.ts";
import { attachStrace } from "../strace.ts";

export const storageFaults: Drill = {
  name: "storage-faults",
  title: "I/O errors and a full disk",
  promise:
    "When the disk fails or is full, no acknowledged deployment is lost, a deployment that was answered as failed does not become active later unless the answer says that its outcome is unknown, reads continue, and deployments succeed again once the disk recovers.",
  method:
    "strace lets single writes and fsyncs of a deployment fail with EIO or ENOSPC, or all writes, or the kernel limits file sizes. The service is restarted, and its active flows are compared with the answer. After a full disk, a deployment has to succeed without a restart.",
  programs: [strace, prlimit],
  async run(context) {
    const { pick, random } = context;
    await using single = await failSingleCalls(context, chooseFaults(random, pick(1, 20)));
    const full = await fillDisk(context, single.service);
    return {
      loads: [
        { name: "single calls that failed", count: single.faults, minimum: pick(4, 40) },
        { name: "deployments on a full disk", count: full.attempts.length, minimum: pick(8, 80) },
      ],
      figures: [
        { name: "deployments that succeeded despite the fault", value: single.acknowledged, unit: "" },
        { name: "deployments answered with an unknown outcome", value: single.unknown, unit: "" },
        { name: "longest time until deployments succeeded again", value: full.recoveryMs, unit: "ms" },
      ],
      violations: [...single.violations, ...full.violations],
      controls: (await Promise.all([acknowledgedCommits(context), revivedCommit(context)])).flat(),
    };
  },
};

const config = { runtime: { mode: "none" } };

type Fault = { readonly call: string; readonly error: string; readonly nth: number };

/** A deployment has about 18 writes and one fsync. */
function chooseFaults(random: () => number, writes: number): Fault[] {
  return ["EIO", "ENOSPC"].flatMap((error) => [
    { call: "fsync", error, nth: 1 },
    ...Array.from({ length: writes }, () => ({ call: "pwrite64", error, nth: 1 + Math.floor(16 * random()) })),
  ]);
}

/** `service` runs until the result is disposed. */
async function failSingleCalls({ random, createFolder, progress }: Context, faults: readonly Fault[], env = {}) {
  const dataDir = await createFolder();
  await using services = new AsyncDisposableStack();
  const start = async () => services.use(await startService({ ownProcess: true, config, dataDir, env }));
  let service = await start();
  let before = (await readActive(service)) as Node[];
  const counts = { faults: 0, acknowledged: 0, unknown: 0 };
  const violations: string[] = [];
  for (const { call, error, nth } of faults) {
    const { attempt, failed } = await attemptUnder(
      service,
      randomFlows(random, 200),
      call,
      `error=${error}:when=${nth}`,
    );
    await service.kill9();
    service = await start();
    const found = await readActive(service);
    const problems = [...checkActive(before, attempt, found), ...(await findDamage(service))];
    violations.push(...problems.map((problem) => `${error} of ${call} ${nth}: ${problem}`));
    before = found as Node[];
    counts.faults += failed ? 1 : 0;
    counts.acknowledged += attempt.outcome === "acknowledged" ? 1 : 0;
    counts.unknown += attempt.outcome === "unknown" ? 1 : 0;
    progress(`${call} ${nth} failed with ${error}`);
  }
  const started = services.move();
  return { ...counts, violations, service, [Symbol.asyncDispose]: () => started.disposeAsync() };
}

/** `failed` is whether the fault was injected. */
async function attemptUnder(service: Service, flows: readonly Node[], call: string, fault: string) {
  await using traced = await attachStrace(service.pid, [`--trace=${call}`, `--inject=${call}:${fault}`]);
  const attempt = await attemptDeployment(service, flows);
  const calls = await traced.end();
  return { attempt, failed: calls.some(({ text }) => text.endsWith("(INJECTED)")) };
}

/** Fills the disk of a service. Disposing frees it. */
type FillDisk = (service: Service) => Promise<AsyncDisposable>;

const withoutSpace: FillDisk = ({ pid }) =>
  attachStrace(pid, ["--trace=pwrite64", "--inject=pwrite64:error=ENOSPC:when=1+"]);

const fillings: Readonly<Record<string, FillDisk>> = {
  "ENOSPC of all writes": withoutSpace,
  // All writes, since the log contains reserved space.
  RLIMIT_FSIZE: async ({ pid }) => {
    const limit = (bytes: string) => void execFileSync("prlimit", ["--pid", `${pid}`, `--fsize=${bytes}:unlimited`]);
    limit("1");
    return { [Symbol.asyncDispose]: async () => limit("unlimited") };
  },
};

async function fillDisk({ random, pick, progress }: Context, service: Service) {
  const attempts: Attempt[] = [];
  const violations: string[] = [];
  let recoveryMs = 0;
  for (const [name, fill] of Object.entries(fillings)) {
    for (let round = 0; round < pick(1, 10); round++) {
      progress(`${name}, round ${round + 1}`);
      const base = await attemptDeployment(service, randomFlows(random, 200));
      const onFullDisk = await deployOnFullDisk(service, base, fill, random);
      violations.push(...onFullDisk.violations.map((problem) => `${name}: ${problem}`));
      attempts.push(...onFullDisk.attempts);
      const beganMs = performance.now();
      await eventually(async () => {
        const { outcome, answer } = await attemptDeployment(service, randomFlows(random, 200));
        if (outcome !== "acknowledged") {
          throw new Error(`${name}: a deployment fails after the disk is free again: ${answer}`);
        }
      });
      recoveryMs = Math.max(recoveryMs, performance.now() - beganMs);
    }
    violations.push(...(await findDamage(service)));
  }
  return { attempts, violations, recoveryMs };
}

async function deployOnFullDisk(service: Service, base: Attempt, fill: FillDisk, random: () => number) {
  const attempts: Attempt[] = [];
  const violations: string[] = [];
  await using _full = await fill(service);
  for (let count = 0; count < 4; count++) {
    const attempt = await attemptDeployment(service, randomFlows(random, 100_000 * (count + 1)));
    attempts.push(attempt);
    if (attempt.outcome === "acknowledged") {
      violations.push("a deployment on a full disk was acknowledged");
      break;
    }
    const { status } = await service.send("GET", "/healthz");
    violations.push(...(status === 200 ? [] : [`GET /healthz was answered ${status}`]));
  }
  // The service may be opening its store again.
  const active = await eventually(() => readActive(service));
  const activated = attempts.find(({ flows }) => isDeepStrictEqual(flows, active)) ?? attempts.at(-1) ?? base;
  return { attempts, violations: [...violations, ...checkActive(base.flows, activated, active)] };
}

function control(planted: string, violations: readonly string[], expected: string): Control {
  return { planted, found: violations.filter((violation) => violation.includes(expected)) };
}

async function acknowledgedCommits(context: Context): Promise<Control[]> {
  const { random } = context;
  const faults = [{ call: "pwrite64", error: "EIO", nth: 4 }];
  await using single = await failSingleCalls(context, faults, preload("failed-commits-succeed"));
  const base = await attemptDeployment(single.service, randomFlows(random, 200));
  const full = await deployOnFullDisk(single.service, base, withoutSpace, random);
  return [
    control("a commit whose write fails is acknowledged", single.violations, "an acknowledged deployment is lost"),
    control("a commit on a full disk is acknowledged", full.violations, "on a full disk was acknowledged"),
  ];
}

async function revivedCommit(context: Context): Promise<Control> {
  const faults = [{ call: "fsync", error: "EIO", nth: 1 }];
  await using single = await failSingleCalls(context, faults, preload("failed-commits-are-not-made"));
  return control(
    "a commit whose fsync fails is answered as not made",
    single.violations,
    "is active, although it was answered",
  );
}
