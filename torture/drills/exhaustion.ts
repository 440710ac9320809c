import assert from "node:assert/strict";
import { once } from "node:events";
import { connect } from "node:net";
import { tryDeploy } from "../../test/e2e/deploy.ts";
import { endpoint, functionNode, type Node, tab } from "../../test/e2e/flow-builders.ts";
import { bearer, form } from "../../test/e2e/rest.ts";
import { parseScrape, type Scrape } from "../../test/e2e/scrape.ts";
import { eventually, startService } from "../../test/e2e/service.ts";
import { login, tokenParameters, user } from "../../test/e2e/users.ts";
import { freePort } from "../../test/free-port.ts";
import type { Context, Size } from "../context.ts";
import type { Control, Drill } from "../drill.ts";
import { correct, overSocket, overTcp, type Way } from "../operator.ts";
import { escape } from "../../packages/runtime/test/flow-builders.ts";

export const exhaustion: Drill = {
  name: "exhaustion",
  title: "Flows that use up connections, calls and logins of the port",
  promise:
    "A flow cannot lock operators out of the Unix socket by using up connections, calls or logins of the port: a corrective deployment over the socket succeeds within ten seconds.",
  method:
    "Flows that may reach the API (not the default) hold 1,100 reconnecting connections, 260 calls with endless bodies, or all permitted connections from a trusted proxy's address, or fail logins. Meanwhile operators deploy a correction over the socket, and log in. The control is an operator without a token over TCP.",
  limits:
    "Over TCP such flows can lock out operators of the same address. A correction takes longer on a slower machine, most of it for the end of a process with 10,000 sockets.",
  async run(context) {
    const { connections, connectionsPerSource, inFlightPerSource } = limits[context.size];
    const direct = await attack(context, { limits: { connectionsPerSource, inFlightPerSource } }, (port) => ({
      "reconnecting connections": holdConnections(port, 1.1 * connectionsPerSource),
      "slow calls": holdConnections(port, inFlightPerSource + surplusOfEach, slowCall),
    }));
    const proxied = await attack(context, { trustedProxies: ["127.0.0.1"], limits: { connections } }, (port) => ({
      "kept-alive connections of a trusted proxy": holdConnections(port, 1.05 * connections, keptAlive),
    }));
    const corrections = [...direct.corrections, ...proxied.corrections];
    return {
      loads: [
        { name: "corrective deployments", count: corrections.length, minimum: 3 * context.pick(1, 10) },
        {
          name: "connections and calls that were ended or rejected",
          count: direct.surplus + proxied.surplus,
          minimum: 3 * surplusOfEach * context.pick(1, 10),
        },
        {
          name: "failed logins of flows",
          count: direct.failedLogins + proxied.failedLogins,
          minimum: 2 * loginsOfEach,
        },
      ],
      figures: [
        {
          name: "longest time of a corrective deployment",
          value: Math.max(...corrections.map(({ ms }) => ms)),
          unit: "ms",
        },
        {
          name: "corrective deployments within two seconds",
          value: corrections.filter(({ ms, problem }) => problem === undefined && ms <= 2_000).length,
          unit: "",
        },
      ],
      violations: [...direct.violations, ...proxied.violations, ...corrections.flatMap(({ problem }) => problem ?? [])],
      controls: [await withoutReserve(context)],
    };
  },
};

/** In full size those of one client are the defaults. */
const limits = {
  quick: { connections: 1_000, connectionsPerSource: 300, inFlightPerSource: 100 },
  full: { connections: 10_000, connectionsPerSource: 1_000, inFlightPerSource: 250 },
} as const satisfies Record<Size, object>;

/** Small sizes also run on machines that are busy with other work. */
const withinMs = { quick: 60_000, full: 10_000 } satisfies Record<Size, number>;
const config = { adminAuth: { users: [user("admin", "*")] }, log: { level: "error" } };
const correction = endpoint("/ok", `msg.payload = "corrected"`);

type Attacked = {
  readonly corrections: readonly { readonly ms: number; readonly problem: string | undefined }[];
  readonly violations: readonly string[];
  /** How many connections and calls were ended or rejected. */
  readonly surplus: number;
  readonly failedLogins: number;
};

/** How many connections and calls have to be ended or rejected before operators try to correct an attack. */
const surplusOfEach = 10;
const loginsOfEach = 60;

async function attack(
  { createFolder, pick, progress, size }: Context,
  options: object,
  flowsOf: (port: number) => Readonly<Record<string, readonly Node[]>>,
): Promise<Attacked> {
  const port = await freePort();
  await using service = await startService({
    ownProcess: true,
    port,
    config: { ...config, ...options, runtime: { network: { allow: [`*:${port}`] } } },
    dataDir: await createFolder(),
  });
  const token = bearer(await login(service, { username: "admin" }));
  const socket = overSocket(service, token);
  assert(socket, "the service has no Unix socket");
  const corrections: { ms: number; problem: string | undefined }[] = [];
  for (const [name, flows] of Object.entries(flowsOf(port))) {
    for (let attacks = pick(1, 10); attacks > 0; attacks -= 1) {
      progress(name);
      const before = await readSurplus(socket);
      void tryDeploy(socket, { flows }).catch(() => undefined);
      await until(async () => (await readSurplus(socket)) >= before + surplusOfEach);
      const { ms, problem } = await correct(socket, correction, withinMs[size]);
      corrections.push({ ms, problem: problem && `${name}: ${problem}` });
    }
  }
  const { count, violations } = await attackLogins(service.port, socket);
  return { corrections, violations, surplus: await readSurplus(socket), failedLogins: count };
}

/** Waits until an attack has begun. Where it does not, the load is too small, and the drill is void. */
async function until(isBegun: () => Promise<boolean>): Promise<void> {
  await eventually(async () => assert(await isBegun()), 60_000).catch(() => {});
}

/** Failed logins of flows do not prevent those of operators. */
async function attackLogins(
  port: number,
  socket: Way,
): Promise<{ readonly count: number; readonly violations: readonly string[] }> {
  await tryDeploy(socket, { flows: failLogins(port, loginsOfEach) }).catch(() => undefined);
  await until(async () => (await countFailedLogins(socket)) >= loginsOfEach);
  const count = await countFailedLogins(socket);
  const body = new URLSearchParams(tokenParameters()).toString();
  const reply = await socket
    .send("POST", "/auth/token", { headers: form, body })
    .catch((error: unknown) => String(error));
  const problem = typeof reply === "string" ? reply : `${reply.status} ${reply.body}`;
  const isAccepted = typeof reply !== "string" && reply.status === 200;
  return { count, violations: isAccepted ? [] : [`60 failed logins: a login over the Unix socket failed: ${problem}`] };
}

async function readMetrics(way: Way): Promise<Scrape> {
  return parseScrape((await way.send("GET", "/metrics", { signal: AbortSignal.timeout(5_000) })).body);
}

async function readSurplus(way: Way): Promise<number> {
  const scrape = await readMetrics(way);
  const ended = ["connections", "connectionsPerSource"].map((limit) =>
    scrape.sum("flowgate_limits_exceeded_total", { limit }),
  );
  return scrape.sum("flowgate_calls_shed_total") + ended.reduce((sum, each) => sum + each, 0);
}

async function countFailedLogins(way: Way): Promise<number> {
  const scrape = await readMetrics(way);
  const count = (code: string): number =>
    scrape.sum("flowgate_requests_total", { method: "flowgate.v1.AuthService/IssueToken", code });
  // A wrong password, and a client that is locked out.
  return count("unauthenticated") + count("resource_exhausted");
}

async function withoutReserve({ createFolder, size }: Context): Promise<Control> {
  const { inFlightPerSource } = limits[size];
  await using service = await startService({
    ownProcess: true,
    config: { runtime: { mode: "none" }, limits: { inFlightPerSource } },
    dataDir: await createFolder(),
  });
  using sockets = new DisposableStack();
  const opened = Array.from({ length: inFlightPerSource + 10 }, async () => {
    const socket = sockets.adopt(connect(service.port, "127.0.0.1"), (each) => void each.destroy());
    socket.on("error", () => {});
    await once(socket, "connect");
    await new Promise((resolve) => void socket.write(slowCall, resolve));
  });
  await Promise.all(opened);
  const { problem } = await correct(overTcp(service, {}), correction, 2_000);
  return { planted: "there is no reserve without a token", found: problem === undefined ? [] : [problem] };
}

function flow(code: string): Node[] {
  const initialize = `${escape} const net = host.getBuiltinModule("net"); ${code}`;
  return [tab("hostile"), functionNode("exhausting", { z: "hostile", initialize })];
}

/** Holds connections to the API, and opens those again that are closed. */
function holdConnections(port: number, count: number, request = ""): Node[] {
  return flow(`const open = () => {
      const socket = net.connect(${port}, "127.0.0.1", () => socket.write(${JSON.stringify(request)}));
      socket.on("error", () => {}).on("data", () => {}).on("close", () => setTimeout(open, 20));
    };
    for (let at = 0; at < ${count}; at++) open();`);
}

/** The beginning of a call whose body never ends. */
const slowCall =
  "POST /auth/token HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-www-form-urlencoded\r\n" +
  "Content-Length: 60000\r\n\r\na";

/** Tries passwords of users that do not exist, each until it is answered, and not only rejected as one call too many. */
function failLogins(port: number, count: number): Node[] {
  const body = (at: string) => `"client_id=service-admin&grant_type=password&username=nobody" + ${at} + "&password=x"`;
  return flow(`const login = (at) => host.getBuiltinModule("http").request(
      { port: ${port}, host: "127.0.0.1", method: "POST", path: "/auth/token",
        headers: { "content-type": "application/x-www-form-urlencoded" } },
      (response) => response.resume().statusCode === 503 && setTimeout(login, 50, at))
      .on("error", () => setTimeout(login, 50, at)).end(${body("at")});
    for (let at = 0; at < ${count}; at++) login(at);`);
}

/** A request that HTTP/1.1 keeps the connection open after. */
const keptAlive = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n";
