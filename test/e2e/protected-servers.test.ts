import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { hostname, tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { freePort } from "../free-port.ts";
import { startServer } from "../postgres/postgres.ts";
import { openCollector } from "../telemetry/collector.ts";
import { deploy } from "./deploy.ts";
import { endpoint } from "./flow-builders.ts";
import { eventually, type Service, startService } from "./service.ts";
import { user } from "./users.ts";

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
  expect(service.log()).toContain(`flows may not listen on port ${server.port}: a port of the service, its store,`);
});

test.each(["[::1]", hostname()])(
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

test("a flow can't take the port of an issuer of tokens, also of one that is added later", async () => {
  const [port, added] = [await freePort(), await freePort()];
  const users = [user("admin", "*")];
  const issuerAt = (name: string, at: number) => ({
    name,
    issuer: `https://${name}.example`,
    audience: "https://flows.example",
    jwksUrl: `http://127.0.0.1:${at}/keys`,
    rules: [{ claims: { sub: "someone" }, permissions: "*" }],
  });
  const configOf = (...issuers: object[]) => ({ adminAuth: { users, issuers, default: { permissions: "*" } } });
  await using service = await startService({ config: configOf(issuerAt("one", port)) });
  expect(await tryInFlow(service, "listen", added)).toBe("done");
  expect(await tryInFlow(service, "listen", port)).toBe("EACCES");
  expect(await tryInFlow(service, "connect", port)).toBe("EACCES");
  await service.replaceConfig(configOf(issuerAt("one", port), issuerAt("two", added)));
  await service.untilLogged(/changed users are in force/);
  expect(await tryInFlow(service, "connect", added)).toBe("EACCES");
});

test("does not start if flows can write the keys of an issuer", async () => {
  const folder = await mkdtemp(join(tmpdir(), "flowgate-keys-"));
  try {
    const issuer = {
      name: "local",
      issuer: "https://issuer.example",
      audience: "https://flows.example",
      jwksFile: join(folder, "keys.json"),
      rules: [{ claims: { sub: "someone" }, permissions: "*" }],
    };
    await writeFile(issuer.jwksFile, '{"keys":[]}');
    const start = (allow: object) => startService({ config: { adminAuth: { issuers: [issuer] }, runtime: { allow } } });
    await expect(start({ fileSystemWrite: [folder] })).rejects.toThrow(
      "Flowgate cannot start: adminAuth.issuers: flows can write jwksFile of local (runtime.dir, runtime.allow.fileSystemWrite), and could authenticate as everyone: put it into another folder",
    );
    await using _ = await start({});
  } finally {
    await rm(folder, { recursive: true });
  }
});

test("flows connect to the port of the collector if an entry of runtime.network.allow names it", async () => {
  await using collector = await openCollector();
  const { port } = new URL(collector.endpoint);
  const config = {
    // The name is protected as both addresses of this machine.
    tracing: { endpoint: collector.endpoint.replace("127.0.0.1", "localhost") },
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
