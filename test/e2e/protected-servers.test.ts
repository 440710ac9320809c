import { hostname } from "node:os";
import { expect, test } from "vitest";
import { freePort } from "../free-port.ts";
import { startServer } from "../postgres/postgres.ts";
import { openCollector } from "../telemetry/collector.ts";
import { deploy } from "./deploy.ts";
import { endpoint } from "./flow-builders.ts";
import { eventually, type Service, startService } from "./service.ts";

/** Listens on a port, or connects to it, in a flow. Returns `done`, or the code of the error. */
async function tryInFlow(service: Service, action: "listen" | "connect", port: number): Promise<string> {
  const call =
    action === "listen"
      ? `net.createServer().listen({ port: ${port}, host: "127.0.0.1" }, done)`
      : `net.connect(${port}, "127.0.0.1", done)`;
  const code = `const net = util.inspect.constructor("return process")().getBuiltinModule("net");
    const done = () => { used.destroy?.(); used.close?.(); node.send({ ...msg, payload: "done" }); };
    const used = ${call}.on("error", ({ code }) => node.send({ ...msg, payload: code }));
    return null`;
  await deploy(service, { flows: endpoint("/try", code) }, "nodes");
  return service.get("/try");
}

test("a flow can't take the port of the database while it restarts, and the service goes on with it afterwards", async () => {
  await using server = await startServer({ settings: { fsync: "off" } });
  const { url } = await server.createDatabase();
  const config = { store: url, credentialSecret: "a secret that all replicas share" };
  await using service = await startService({ config });
  // It tries again and again, also while there is no database in which a deployment could be stored.
  const code = `const { createServer } = util.inspect.constructor("return process")().getBuiltinModule("net");
    const hosts = ["127.0.0.1", "0.0.0.0", "::1", "::"];
    const taken = global.get("taken") ?? [];
    global.set("taken", taken);
    const timer = setInterval(() => {
      for (const host of hosts) {
        createServer((socket) => socket.end()).on("error", ({ code }) => taken.push(code))
          .listen({ port: ${server.port}, host, reusePort: true }, () => taken.push(host));
      }
    }, 5);
    msg.payload = "started"`;
  const flows = [...endpoint("/attack", code), ...endpoint("/taken", `msg.payload = global.get("taken")`)];
  await deploy(service, { flows });
  expect(await service.get("/attack")).toBe("started");
  await server.stop("fast");
  await eventually(async () => expect((await service.send("GET", "/readyz")).status).toBe(503));
  const before = (JSON.parse(await service.get("/taken")) as string[]).length;
  await eventually(async () =>
    expect((JSON.parse(await service.get("/taken")) as string[]).length).toBeGreaterThan(before + 40),
  );
  expect(new Set(JSON.parse(await service.get("/taken")) as string[])).toEqual(new Set(["EACCES"]));
  await server.start();
  await eventually(async () => expect((await service.send("GET", "/readyz")).status).toBe(200));
  expect(await tryInFlow(service, "connect", server.port)).toBe("EACCES");
  expect(service.log()).toContain(`flows may not listen on port ${server.port}: a port of the service, its store or`);
});

test.each(["127.0.0.1", "localhost", "[::1]", hostname()])(
  "a flow can't take the port of the collector of traces at %s, nor connect to it unless its port is allowed",
  async (host) => {
    await using collector = await openCollector();
    const [port, other] = [Number(new URL(collector.endpoint).port), await freePort()];
    const tracing = { endpoint: `http://${host}:${port}/v1/traces`, headers: { authorization: "Bearer secret" } };
    await using service = await startService({ config: { tracing } });
    expect(await tryInFlow(service, "listen", other)).toBe("done");
    expect(await tryInFlow(service, "listen", port)).toBe("EACCES");
    expect(await tryInFlow(service, "connect", port)).toBe("EACCES");
  },
);

test("flows connect to the port of the collector if an entry of runtime.network.allow names it", async () => {
  await using collector = await openCollector();
  const { port } = new URL(collector.endpoint);
  const config = {
    tracing: { endpoint: collector.endpoint },
    runtime: { network: { allow: ["*", `127.0.0.1:${port}`] } },
  };
  await using service = await startService({ config });
  expect(await tryInFlow(service, "connect", Number(port))).toBe("done");
  expect(await tryInFlow(service, "listen", Number(port))).toBe("EACCES");
});

test("the port of a collector on another machine is not protected here", async () => {
  const port = await freePort();
  await using service = await startService({ config: { tracing: { endpoint: `http://192.0.2.1:${port}/` } } });
  expect(await tryInFlow(service, "listen", port)).toBe("done");
});
