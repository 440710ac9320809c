import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { describe, expect, test } from "vitest";
import { deploy, tryDeploy } from "./deploy.ts";
import { endpoint, tab } from "./flow-builders.ts";
import { isMissing } from "./program.ts";
import { json, v2 } from "./rest.ts";
import { eventually, type Service, startService, withoutRuntime } from "./service.ts";

/** Whether strace can be attached to other processes, which containers may forbid. */
async function canTrace(): Promise<boolean> {
  const traced = spawn("sleep", ["60"]);
  const strace = spawn("strace", ["-p", String(traced.pid)], { stdio: ["ignore", "ignore", "pipe"] });
  const lines = createInterface(strace.stderr);
  const ended = once(strace, "close").then(() => [""]);
  // It says so, or why it can't. Rejects if it is not installed.
  const [line] = await Promise.race([once(lines, "line"), ended]).catch(() => [""]);
  traced.kill();
  return String(line).includes("attached");
}

/** Makes each fsync of the write-ahead log fail until it is disposed. */
async function failFsync({ pid, dataDir }: Service): Promise<AsyncDisposable> {
  const calls = "fsync,fdatasync";
  const injection = ["-e", `trace=${calls}`, "-e", `inject=${calls}:error=EIO`];
  const strace = spawn("strace", ["-f", "-p", String(pid), "-P", join(dataDir, "flowgate.db-wal"), ...injection], {
    stdio: ["ignore", "ignore", "pipe"],
  });
  await once(createInterface(strace.stderr), "line");
  return {
    async [Symbol.asyncDispose]() {
      strace.kill("SIGINT");
      await once(strace, "exit");
    },
  };
}

async function readActive(service: Service): Promise<{ rev: string; flows: { id: string }[] }> {
  return (await service.send("GET", "/flows", { headers: v2 })).json() as { rev: string; flows: { id: string }[] };
}

/** Resolves when the outcome of the deployment is recorded, which is another commit. */
async function untilRunning(service: Service, rev: string): Promise<void> {
  const read = async () => (await service.send("GET", `/revisions/${rev}`)).json();
  await eventually(async () => expect(await read()).toMatchObject({ outcome: "running" }));
}

async function untilReady(service: Service): Promise<void> {
  await eventually(async () => expect((await service.send("GET", "/readyz")).status).toBe(200));
}

describe.skipIf(isMissing("failing disks (strace)", await canTrace()))("a deployment whose fsync fails", () => {
  const failed = {
    status: 503,
    body: {
      code: "unavailable",
      message: expect.stringMatching(/whose outcome is unknown: before you try again, read the active revision/),
    },
  };

  test("has an unknown outcome, which the service settles before it is ready again", async () => {
    await using service = await startService();
    const before = await deploy(service, { flows: [tab("before")] });
    await untilRunning(service, before);
    {
      await using _ = await failFsync(service);
      const reply = await tryDeploy(service, { flows: [tab("doubtful")] });
      expect({ status: reply.status, body: reply.json() }).toEqual(failed);
      const ready = await service.send("GET", "/readyz");
      expect([ready.status, ready.body]).toEqual([503, expect.stringContaining("whose outcome is unknown")]);
      // Nothing else is written, and the answer is not in doubt.
      const next = await tryDeploy(service, { flows: [tab("refused")] });
      expect([next.status, next.json()]).toEqual([
        503,
        { code: "unavailable", message: "the database's storage has failed: try again" },
      ]);
      // A restart writes nothing but its audit entry, which goes to the log.
      const restart = await service.send("POST", "/runtime:restart", { headers: json, body: "{}" });
      expect([restart.status, restart.json()]).toEqual([200, { rev: expect.any(String), outcome: "running" }]);
      await service.untilLogged(/"runtime_restarted".*audit entries could not be written/);
      // It can still be read.
      expect(["before", "doubtful"]).toContain((await readActive(service)).flows[0]?.id);
    }
    await untilReady(service);
    const settled = await readActive(service);
    expect(["before", "doubtful"]).toContain(settled.flows[0]?.id);
    expect(settled.rev === before).toBe(settled.flows[0]?.id === "before");

    await service.kill9();
    await using again = await startService({ dataDir: service.dataDir });
    expect(await readActive(again)).toEqual(settled);
    const after = await deploy(again, { flows: [tab("after")], rev: settled.rev });
    expect((await readActive(again)).rev).toBe(after);
    expect((await again.send("GET", "/audit:verify")).json()).toMatchObject({ intact: true });
  });

  test("is made if the log still has it when the disk works again, and the flows run", async () => {
    await using service = await startService();
    await untilRunning(service, await deploy(service, { flows: [tab("before")] }));
    {
      await using _ = await failFsync(service);
      const reply = await tryDeploy(service, { flows: endpoint("/doubtful", "msg.payload = 1") });
      expect({ status: reply.status, body: reply.json() }).toEqual(failed);
      // The database could not be opened anew.
      await eventually(async () => expect((await service.send("GET", "/readyz")).body).toMatch(/SQLite's error 10/));
    }
    await untilReady(service);
    const { flows } = await readActive(service);
    expect(flows).toEqual(endpoint("/doubtful", "msg.payload = 1"));
    await eventually(async () => expect(await service.get("/doubtful")).toBe("1"));
  });

  test("may be active at the next start, where the same request with its key deploys nothing more", async () => {
    await using service = await startService({ config: withoutRuntime });
    await deploy(service, { flows: [tab("before")] });
    const repeatable = () =>
      [{ flows: [tab("doubtful")] }, "full", { "idempotency-key": "one" }] as const satisfies unknown[];
    {
      await using _ = await failFsync(service);
      const reply = await tryDeploy(service, ...repeatable());
      expect({ status: reply.status, body: reply.json() }).toEqual(failed);
      await service.kill9();
    }
    await using again = await startService({ config: withoutRuntime, dataDir: service.dataDir });
    const { rev, flows } = await readActive(again);
    expect(flows).toEqual([tab("doubtful")]);
    expect(await deploy(again, ...repeatable())).toBe(rev);
  });
});
