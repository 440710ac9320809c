import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { deploy, readRuntime, tryDeploy } from "./deploy.ts";
import { endpoint, functionNode, tab } from "./flow-builders.ts";
import { json } from "./rest.ts";
import { eventually, type Service, startService } from "./service.ts";

/** Deploys a flow that leaves its node, and serves a port from then on, which is returned. */
async function deployEscaping(service: Service, name: string): Promise<number> {
  const initialize = `const host = util.inspect.constructor("return process")();
    const server = host.getBuiltinModule("http").createServer((request, response) => response.end("still here"));
    server.listen(0, "127.0.0.1", () => node.warn("${name} escaped to " + server.address().port + "."));`;
  await deploy(service, { flows: [tab("T"), functionNode("f", { z: "T", initialize })] }, "nodes");
  const escaped = new RegExp(`${name} escaped to (\\d+)\\.`);
  await service.untilLogged(escaped);
  return Number(escaped.exec(service.log())?.[1]);
}

async function isServed(port: number): Promise<boolean> {
  return fetch(`http://127.0.0.1:${port}/`).then(
    ({ ok }) => ok,
    () => false,
  );
}

const harmless = endpoint("/hello", `msg.payload = "hello"`);

describe("flows in a process", () => {
  let service: Service;
  beforeAll(async () => {
    service = await startService({ config: { runtime: { freshProcess: "full", safeMode: { exits: 1 } } } });
  });
  afterAll(() => service?.[Symbol.asyncDispose]());

  test("code that has left its node does not survive a full deployment", async () => {
    const port = await deployEscaping(service, "first");
    expect(await isServed(port)).toBe(true);
    await deploy(service, { flows: harmless });
    expect(await isServed(port)).toBe(false);
    expect(await service.get("/hello")).toBe("hello");
  });

  test("it survives a deployment of changed nodes, and not a restart, which is in the audit log", async () => {
    const port = await deployEscaping(service, "second");
    const rev = await deploy(service, { flows: harmless }, "nodes");
    expect(await isServed(port)).toBe(true);
    const { status, body } = await service.send("POST", "/runtime:restart", { headers: json, body: "{}" });
    expect({ status, body: JSON.parse(body) as unknown }).toEqual({ status: 200, body: { rev, outcome: "running" } });
    expect(await isServed(port)).toBe(false);
    expect(await service.get("/hello")).toBe("hello");
    const { entries } = (await service.send("GET", "/audit?kind=runtime_restarted")).json() as { entries: object[] };
    expect(entries).toEqual([
      expect.objectContaining({ kind: "runtime_restarted", subject: rev, protocol: "rest", address: "127.0.0.1" }),
    ]);
  });

  test("it does not survive a deployment that follows a blocked event loop, or with runtime.freshProcess", async () => {
    const port = await deployEscaping(service, "third");
    // Blocks for longer than a hang, and shorter than what is killed; not while flows start, when they may.
    const block = "Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1500); msg.payload = 1";
    await deploy(service, { flows: [...harmless, ...endpoint("/block", block)] }, "nodes");
    expect(await isServed(port)).toBe(true);
    // On a busy machine, the service itself may not run often enough to notice it.
    await eventually(async () => {
      await service.get("/block");
      expect(service.log()).toMatch(/the next deployment starts in a new process: a flow blocked the event loop/);
    });
    await deploy(service, { flows: harmless }, "nodes");
    expect(await isServed(port)).toBe(false);

    const [before] = await service.childPids();
    await deploy(service, { flows: harmless }, "nodes");
    expect(await service.childPids()).toEqual([before]);
    await deploy(service, { flows: harmless }, "full");
    expect(await service.childPids()).not.toEqual([before]);
  });

  test("a restart during a probation is no failure, and leaves safe mode", async () => {
    const before = (await service.send("GET", "/flows")).headers["etag"];
    const probation = tryDeploy(service, { flows: harmless }, "nodes", {
      "service-deployment-wait": "3",
      "service-deployment-on-failure": "undo",
    });
    await eventually(async () => {
      expect((await service.send("GET", "/flows")).headers["etag"]).not.toBe(before);
      expect((await readRuntime(service)).state).toBe("running");
    });
    const restart = await service.send("POST", "/runtime:restart");
    expect(restart.json()).toMatchObject({ outcome: "running" });
    const { headers } = await probation;
    expect(headers["service-deployment-outcome"]).toBe("running");

    const crashing = `const host = util.inspect.constructor("return process")();
      const fs = host.getBuiltinModule("fs");
      if (!fs.existsSync("crashed")) {
        fs.writeFileSync("crashed", "");
        host.getBuiltinModule("timers").setTimeout(() => { throw new Error("once"); });
      }`;
    await deploy(service, { flows: [tab("T"), functionNode("f", { z: "T", initialize: crashing })] });
    await eventually(async () => expect((await readRuntime(service)).state).toBe("safe"));
    expect((await service.send("POST", "/runtime:restart")).json()).toMatchObject({ outcome: "running" });
    expect((await readRuntime(service)).state).toBe("running");
  });
});

test("a replica that runs no flows refuses a restart", async () => {
  await using service = await startService({ config: { runtime: { mode: "none" } } });
  const reply = await service.send("POST", "/runtime:restart");
  expect([reply.status, reply.json()]).toEqual([
    400,
    {
      code: "no_runtime",
      message: "this replica never runs flows (runtime.mode: none): send the request to a replica that runs them",
    },
  ]);
});
