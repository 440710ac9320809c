import { connect as connectHttp2 } from "node:http2";
import { join } from "node:path";
import { Code } from "@connectrpc/connect";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { SettingsService } from "../../gen/flowgate/v1/settings_pb.ts";
import { escape } from "../../packages/runtime/test/flow-builders.ts";
import { openRaw } from "../server/http/raw-connection.ts";
import { tryDeploy } from "./deploy.ts";
import { freePort } from "../free-port.ts";
import { functionNode, type Node, tab } from "./flow-builders.ts";
import { form, type Sending } from "./rest.ts";
import { call, rpcProtocols } from "./rpc.ts";
import { eventually, type Service, startService } from "./service.ts";
import { login, tokenParameters, user } from "./users.ts";

// Flows, and other clients, that use up the limits of the address that they share with operators, who have the Unix socket.

let service: Service;
let bearer: { authorization: string };
let socketPath: string;
beforeAll(async () => {
  const limits = { connectionsPerSource: 100, inFlightPerSource: 20 };
  const port = await freePort();
  // By default, flows can't connect to this port.
  const runtime = { network: { allow: [`*:${port}`] } };
  service = await startService({ port, config: { adminAuth: { users: [user("admin", "*")] }, limits, runtime } });
  bearer = { authorization: `Bearer ${await login(service, {})}` };
  socketPath = join(service.dataDir, "flowgate.sock");
});
afterAll(() => service?.[Symbol.asyncDispose]());

const correction = { flows: [tab("corrected")] };

/** Deploys over new connections, to the process that runs already: a new one would end what hostile flows do. */
const deployOver = (target: Sending, headers = bearer) =>
  tryDeploy(
    { send: (method, path, sending) => service.send(method, path, { ...sending, ...target }) },
    correction,
    "nodes",
    headers,
  );

async function statuses(send: () => Promise<{ status: number }>): Promise<number[]> {
  const all: number[] = [];
  for (let count = 0; count < 10; count += 1) {
    all.push((await send()).status);
  }
  return all;
}

const always = (status: number): number[] => Array<number>(10).fill(status);

/** A flow that runs this code of the host, to which `net`, `port` and `post` are known. */
function hostile(code: string): Node[] {
  const post = `const post = (path, type, length) => "POST " + path + " HTTP/1.1\\r\\nHost: localhost\\r\\nContent-Type: " + type +
    "\\r\\nContent-Length: " + length + "\\r\\n\\r\\n";`;
  const initialize = `${escape} const net = host.getBuiltinModule("net"); const port = ${service.port}; ${post} ${code}`;
  return [tab("t"), functionNode("f", { z: "t", initialize })];
}

describe("calls without an end up to the limit of one client", () => {
  const heads =
    "POST /auth/token HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n" +
    `Content-Type: ${form["content-type"]}\r\n\r\n`;

  async function fill(): Promise<Disposable> {
    const session = connectHttp2(service.url);
    const head = { ":method": "POST", ":path": "/auth/token", ...form };
    const open = (): void =>
      void session
        .request(head)
        .on("error", () => {})
        .write("a");
    Array.from({ length: 20 }, open);
    await eventually(async () => {
      // Calls that have just ended may have taken the place of one.
      open();
      expect((await service.send("GET", "/auth/login")).status).toBe(503);
    });
    return { [Symbol.dispose]: () => session.destroy() };
  }

  test("leave room for those with a token, before their body is read, over REST and gRPC", async () => {
    using _ = await fill();
    expect(await statuses(() => deployOver({}))).toEqual(always(200));
    const getSettings = (headers: Readonly<Record<string, string>>) =>
      call(rpcProtocols.gRPC(service.url), SettingsService.method.getSettings, {}, headers);
    expect(await getSettings(bearer)).toHaveProperty("message");

    const unknown = { authorization: `Bearer ${"x".repeat(43)}` };
    const reply = await deployOver({}, unknown);
    expect([reply.status, reply.json()]).toEqual([503, expect.objectContaining({ code: "overloaded" })]);
    expect(reply.headers["retry-after"]).toMatch(/^[1-3]$/);
    const outcome = await getSettings(unknown);
    expect(outcome).toMatchObject({ refused: { code: Code.Unavailable, reason: "overloaded" } });
    expect("refused" in outcome && outcome.refused.metadata.get("grpc-retry-pushback-ms")).toMatch(/^[1-3]000$/);
    expect((await tryDeploy(service, correction)).status).toBe(503);
    using raw = await openRaw(service.port);
    raw.write(
      heads.replace("/auth/token", "/flows").replace("\r\n\r\n", `\r\nAuthorization: ${unknown.authorization}\r\n\r\n`),
    );
    expect(await raw.until(/overloaded/)).toMatch(/^HTTP\/1\.1 503 /);
  });

  test("do not concern the Unix socket", async () => {
    using _ = await fill();
    expect(await statuses(() => service.send("GET", "/auth/login", { socketPath }))).toEqual(always(200));
    expect(await statuses(() => deployOver({ socketPath }))).toEqual(always(200));
  });
});

describe("a flow", () => {
  /** Deploys it, and waits until it has done what it prints. */
  async function run(code: string): Promise<void> {
    expect((await tryDeploy(service, { flows: hostile(code) }, "full", bearer)).status).toBe(200);
  }

  test("can't open the Unix socket", async () => {
    const path = JSON.stringify(socketPath);
    await run(`try {
      net.connect(${path}, () => node.warn("opened")).on("error", ({ code }) => node.warn("refused: " + code));
    } catch ({ code }) { node.warn("refused: " + code); }`);
    await eventually(async () => expect(service.log()).toMatch(/opened|refused: \w+/));
    expect(service.log()).toContain("refused: EACCES");
  });

  test("that fails to log in, and resets half of its logins, does not block operators over the Unix socket", async () => {
    const body = new URLSearchParams(tokenParameters({ password: "wrong" })).toString();
    await run(`let logins = 0;
      const login = post("/auth/token", "application/x-www-form-urlencoded", ${body.length}) + "${body}";
      const attempt = () => {
        const socket = net.connect(port, "127.0.0.1").on("error", () => {}).on("close", () => {
          if (++logins < 60) setTimeout(attempt, 20); else node.warn("no more logins");
        });
        if (logins % 2 === 0) socket.on("data", () => socket.destroy()).write(login);
        else socket.on("connect", () => socket.write(login, () => socket.resetAndDestroy()));
      };
      attempt();`);
    await eventually(async () => expect(service.log()).toContain("no more logins"));
    expect(service.log()).toMatch(/"locked":"(?:user|client)","client":"127\.0\.0\.1","kind":"network"/);
    const parameters = new URLSearchParams(tokenParameters()).toString();
    expect((await service.send("POST", "/auth/token", { headers: form, body: parameters, socketPath })).status).toBe(
      200,
    );
  });
});
