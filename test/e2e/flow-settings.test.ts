import { mkdtempDisposable, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { hashPassword } from "../../src/auth/passwords.ts";
import { createDatabase } from "../postgres/postgres.ts";
import { createAuthority, type Issued, issueServer } from "../certificates.ts";
import { deploy, readRuntime } from "./deploy.ts";
import { endpoint } from "./flow-builders.ts";
import { type Reply, send } from "./rest.ts";
import { eventually, type Service, startService } from "./service.ts";

const flows = [
  ...endpoint(
    "count",
    `const n = (global.get("n") || 0) + 1; global.set("n", n); msg.payload = [n, global.get("price"), flow.get("x", "memory")]; flow.set("x", n, "memory")`,
  ),
];

test("flows keep context over restarts, and serve their port over TLS to a user", async () => {
  await using folder = await mkdtempDisposable(join(tmpdir(), "flowgate-settings-"));
  const [certFile, keyFile] = [join(folder.path, "flows.crt"), join(folder.path, "flows.key")];
  const write = async ({ cert, key }: Issued) => {
    await writeFile(certFile, cert);
    await writeFile(keyFile, key);
  };
  let authority = createAuthority();
  await write(issueServer(authority));
  const auth = { username: "ada", password: await hashPassword("a password") };
  const runtime = {
    contextStorage: { default: { module: "localfilesystem" }, memory: { module: "memory" } },
    globalContext: { price: 1.5 },
    http: { root: "/api", auth, tls: { certFile, keyFile } },
  };
  const dataDir = join(folder.path, "data");
  const authorization = `Basic ${Buffer.from("ada:a password").toString("base64")}`;
  const get = async (service: Service, headers: Record<string, string> = { authorization }): Promise<Reply> => {
    const { httpPort } = await readRuntime(service);
    return send(`https://127.0.0.1:${httpPort}`, "GET", "/api/count", { headers, tls: { ca: authority.cert } });
  };
  {
    await using service = await startService({ config: { runtime }, dataDir });
    await deploy(service, { flows });
    expect((await get(service, {})).status).toBe(401);
    expect((await get(service)).json()).toEqual([1, 1.5, null]);
    expect((await get(service)).json()).toEqual([2, 1.5, 1]);
    const listed = await service.send("GET", "/context/global?store=default");
    expect(listed.json()).toEqual({ values: { n: 2, price: 1.5 } });
    authority = createAuthority("A new authority");
    await write(issueServer(authority));
    await eventually(async () => expect((await get(service)).status).toBe(200));
  }
  await using service = await startService({ config: { runtime }, dataDir });
  await eventually(async () => expect((await readRuntime(service)).state).toBe("running"));
  expect((await get(service)).json()).toEqual([4, 1.5, null]);
});

test("the replica that takes over has the context that flows keep in the store", async () => {
  await using database = await createDatabase();
  const contextStorage = { default: { module: "database", config: { flushInterval: 0 } } };
  const runtime = { mode: "one", leaseMs: 2_000, contextStorage };
  const config = { store: database.url, credentialSecret: "a secret for all replicas", runtime };
  await using first = await startService({ config });
  await using second = await startService({ config });
  await eventually(async () => expect((await readRuntime(first)).state).toBe("running"));
  await deploy(first, { flows });
  const count = async (service: Service) => (JSON.parse(await service.get("/count")) as number[])[0];
  expect([await count(first), await count(first)]).toEqual([1, 2]);
  // Written in time: what is written last can be lost with a replica that is killed.
  await first.send("POST", "/runtime:restart");
  await eventually(async () => expect(await count(first)).toBe(3));
  await first.send("POST", "/runtime:restart");
  await first.kill9();
  await eventually(async () => expect((await readRuntime(second)).state).toBe("running"));
  expect(await count(second)).toBe(4);
  const reply = await second.send("GET", "/context/global/n?store=default");
  expect(reply.json()).toEqual({ value: 4, format: "number" });
});

test("files of the port that can't be used are named at the start", async () => {
  const runtime = { http: { tls: { certFile: "/nowhere/a.crt", keyFile: "/nowhere/a.key" } } };
  await expect(startService({ config: { runtime } })).rejects.toThrow(
    "runtime.http.tls.certFile: /nowhere/a.crt can't be read (ENOENT)",
  );
});
