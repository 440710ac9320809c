import { createSocket } from "node:dgram";
import { once } from "node:events";
import { describe, expect, test } from "vitest";
import type { Database } from "../postgres/database.ts";
import { createDatabase, startServer } from "../postgres/postgres.ts";
import { deploy, readRuntime, tryDeploy } from "./deploy.ts";
import { endpoint, functionNode, installReporter, reporter, tab } from "./flow-builders.ts";
import { eventually, type Service, startService } from "./service.ts";

const credentialSecret = "a secret that all replicas share";

/** Receives a datagram for each act of the flows, which contains the fencing token. */
async function openRecorder() {
  const socket = createSocket("udp4");
  const tokens: number[] = [];
  const waiting = new Set<() => void>();
  socket.on("message", (message) => {
    tokens.push(Number(message.toString()));
    waiting.forEach((look) => look());
  });
  socket.bind(0, "127.0.0.1");
  await once(socket, "listening");
  return {
    port: socket.address().port,
    tokens,
    /** Resolves with the token of the next act that has a greater one. */
    async untilGreater(than: number): Promise<number> {
      await new Promise<void>((resolve) => {
        const look = (): void => {
          if ((tokens.at(-1) ?? 0) > than) {
            waiting.delete(look);
            resolve();
          }
        };
        waiting.add(look);
        look();
      });
      return tokens.at(-1) ?? 0;
    },
    [Symbol.dispose]: () => void socket.close(),
  };
}

/** Flows that act every few milliseconds, by a timer and without waiting for anything. */
function actingFlows(port: number) {
  const place = { x: 100, y: 100, z: "tab" };
  return [
    tab("tab"),
    functionNode("act", {
      z: "tab",
      initialize: `setInterval(() => node.send({ payload: env.get("FLOWGATE_FENCING_TOKEN") }), 5)`,
      wires: [["send"]],
    }),
    {
      id: "send",
      type: "udp out",
      ...place,
      addr: "127.0.0.1",
      port: String(port),
      ipv: "udp4",
      multicast: "false",
      wires: [],
    },
  ];
}

/** The acts after which an older token was used: two replicas have acted at once. */
function findOverlaps(tokens: readonly number[]): number[] {
  return tokens.flatMap((token, at) => (token < (tokens[at - 1] ?? 0) ? [at] : []));
}

test("the check detects two replicas that act at once", () => {
  expect(findOverlaps([1, 1, 2, 2, 5, 5])).toEqual([]);
  expect(findOverlaps([1, 2, 1, 2])).toEqual([2]);
});

describe("in mode one", () => {
  test("one replica at a time acts, while replicas are killed and paused past their lease", async () => {
    await using database = await createDatabase();
    using recorder = await openRecorder();
    const config = { store: database.url, credentialSecret, runtime: { mode: "one", leaseMs: 2_000 } };
    await using stack = new AsyncDisposableStack();
    const services = new Set<Service>();
    const start = async (): Promise<void> => {
      services.add(stack.use(await startService({ config })));
    };
    await Promise.all([start(), start(), start()]);
    const [first] = services;
    await deploy(first as Service, { flows: actingFlows(recorder.port) });

    const runner = () =>
      eventually(async () => {
        for (const service of services) {
          const { runtime } = (await service.send("GET", "/settings")).json() as { runtime: { state: string } };
          if (runtime.state === "running") {
            return service;
          }
        }
        throw new Error("no replica runs the flows");
      });

    const failures: Record<string, (service: Service, takeOver: () => Promise<number>) => Promise<void>> = {
      async killed(service, takeOver) {
        await service.kill9();
        services.delete(service);
        await takeOver();
        await start();
      },
      async paused(service, takeOver) {
        await pause([service.pid], takeOver);
      },
      async "paused with its flows"(service, takeOver) {
        await pause([service.pid, ...(await service.childPids())], takeOver);
      },
      async "paused with its flows, which continue first"(service, takeOver) {
        await pause([...(await service.childPids()), service.pid], takeOver);
      },
      async stopped(service, takeOver) {
        services.delete(service);
        await service.stop();
        await takeOver();
        await start();
      },
    };
    let token = await recorder.untilGreater(0);
    for (const [name, fail] of Object.entries(failures)) {
      await fail(await runner(), async () => (token = await recorder.untilGreater(token)));
      // The replica that was paused is listed again.
      await runner();
      expect({ name, overlaps: findOverlaps(recorder.tokens) }).toEqual({ name, overlaps: [] });
    }
    expect(recorder.tokens.length).toBeGreaterThan(100);
  });
});

describe("in mode one, flows that need a module", () => {
  const leaseMs = 2_000;
  const flows = [
    tab("T"),
    reporter("r", "T"),
    ...endpoint("/token", `msg.payload = env.get("FLOWGATE_FENCING_TOKEN")`),
  ];
  const waiting = { "service-deployment-wait": "1", "service-deployment-on-failure": "undo" };

  test("are run by the replica that has it, also if they are deployed at the other one, which held the lease", async () => {
    await using database = await createDatabase();
    const config = { store: database.url, credentialSecret, runtime: { mode: "one", leaseMs } };
    await using plain = await startService({ config });
    await using equipped = await startService({ config, prepare: installReporter });
    expect([await readRuntime(plain), await readRuntime(equipped)]).toMatchObject([
      { state: "running" },
      { state: "standby" },
    ]);
    await untilListed(plain, 2);
    const before = await readLease(database);
    const reply = await tryDeploy(plain, { flows }, "full", waiting);
    expect(reply).toMatchObject({ status: 200, headers: { "service-deployment-outcome": "running" } });
    const { rev } = reply.json() as { rev: string };
    expect(await readRuntime(equipped)).toMatchObject({ state: "running" });
    expect(await readRuntime(plain)).toMatchObject({
      state: "standby",
      message: expect.stringMatching(/; here they could not be started: missing node types: reporter$/),
    });
    expect(Number(await equipped.get("/token"))).toBe(before.token + 1);
    await eventually(async () =>
      expect((await equipped.send("GET", `/revisions/${rev}`)).json()).toMatchObject({ outcome: "running" }),
    );
  });

  test("stay failed on one replica if none has it", async () => {
    await using database = await createDatabase();
    const config = { store: database.url, credentialSecret, runtime: { mode: "one", leaseMs } };
    await using first = await startService({ config });
    await using second = await startService({ config });
    await untilListed(first, 2);
    const reply = await tryDeploy(first, { flows });
    expect(reply.headers["service-deployment-outcome"]).toBe("failed");
    let lease = await readLease(database);
    const { token } = lease;
    const tokens = new Set([token]);
    for (let renewals = 0; renewals < 6; renewals += 1) {
      const { ends } = lease;
      lease = await eventually(async () => {
        const next = await readLease(database);
        if (next.ends === ends) {
          throw new Error("the lease was not renewed");
        }
        return next;
      });
      tokens.add(lease.token);
    }
    expect(tokens).toEqual(new Set([token]));
    const runtimes = [await readRuntime(first), await readRuntime(second)];
    expect(runtimes.map(({ state }) => state)).toEqual(["standby", "failed"]);
    for (const { message } of runtimes) {
      expect(message).toMatch(/missing node types: reporter$/);
    }
  });
});

/** A replica that has started is known to the others some milliseconds later. */
async function untilListed(service: Service, count: number): Promise<void> {
  await eventually(async () => {
    const { replicas } = (await service.send("GET", "/settings")).json() as { replicas: unknown[] };
    expect(replicas).toHaveLength(count);
  });
}

async function readLease(database: Database): Promise<{ token: number; ends: string }> {
  const [row] = await database.query<{ token: string; ends: string }>(
    "SELECT token, ends_at::text AS ends FROM flowgate.lease",
  );
  return { token: Number(row?.token), ends: row?.ends ?? "" };
}

/** The processes continue in this order. */
async function pause(pids: readonly number[], until: () => Promise<unknown>): Promise<void> {
  pids.forEach((pid) => process.kill(pid, "SIGSTOP"));
  await until();
  pids.forEach((pid) => process.kill(pid, "SIGCONT"));
}

test("without the database, reads and flows go on, and writes are refused until it is back", async () => {
  await using server = await startServer();
  const database = await server.createDatabase();
  await using service = await startService({ config: { store: database.url, credentialSecret } });
  const rev = await deploy(service, { flows: endpoint("/hello", `msg.payload = "one"`) });

  await server.kill();
  await eventually(async () => expect((await service.send("GET", "/readyz")).status).toBe(503));
  const refused = await tryDeploy(service, { flows: [] });
  expect(refused).toMatchObject({ status: 503, headers: { "retry-after": "1" } });
  expect((await service.send("GET", "/revisions")).status).toBe(503);
  expect((await service.send("GET", "/flows")).headers.etag).toContain(rev);
  expect(await service.get("/hello")).toBe("one");
  expect((await service.send("GET", "/readyz")).body).toContain("no database accepts connections");

  await server.start();
  await eventually(async () => expect((await service.send("GET", "/readyz")).status).toBe(200));
  await deploy(service, { flows: endpoint("/hello", `msg.payload = "two"`), rev }, "nodes");
  expect(await service.get("/hello")).toBe("two");
  expect(service.log()).not.toContain(database.url.split(":")[2]?.split("@")[0]);
});
