import { once } from "node:events";
import { type AddressInfo, type Server, createServer } from "node:net";
import { constants, networkInterfaces } from "node:os";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { FlowNode } from "@flowgate/flows";
import { ProtectedPorts } from "../src/protected-ports.ts";
import { type OpenedRuntime, revision, runtimeUnderTest } from "./builders.ts";
import { endpoint, escape, injectOnce, onTab, tab } from "./flow-builders.ts";

type Target = { readonly server: Server; readonly port: number; connections: number };

/** A server on all addresses that counts its connections. */
async function openTarget(): Promise<Target> {
  const server = createServer((socket) => {
    target.connections += 1;
    socket.on("error", () => {}).end();
  }).listen(0, "::");
  await once(server, "listening");
  const target = { server, port: (server.address() as AddressInfo).port, connections: 0 };
  return target;
}

describe("a flow", () => {
  const protectedPorts = new ProtectedPorts();
  let own: Target;
  let other: Target;
  let runtime: OpenedRuntime;
  let seq = 0;
  beforeAll(async () => {
    [own, other] = await Promise.all([openTarget(), openTarget()]);
    protectedPorts.add(own.port);
    runtime = await runtimeUnderTest({
      protectedPorts,
      freshProcess: "never",
      network: { deny: ["127.0.0.66", "*:25"] },
    });
    await runtime.untilState("running");
  });
  afterAll(async () => {
    await runtime[Symbol.asyncDispose]();
    own.server.close();
    other.server.close();
  });

  async function deploy(flows: readonly FlowNode[]): Promise<void> {
    seq += 1;
    await runtime.apply(revision(seq, flows), "full");
  }

  /** Runs the body of an async function in a flow. Returns its result, or the error with its cause. */
  async function run(body: string): Promise<unknown> {
    const code = `${escape}
      const load = (name) => host.getBuiltinModule(name);
      const inProcess = load("vm").runInThisContext;
      const [own, other] = [${own.port}, ${other.port}];
      const event = (emitter, name) => new Promise((resolve, reject) => {
        emitter.once("error", reject).once(name, () => resolve("done"));
      });
      const respond = (payload) => node.send({ ...msg, payload });
      (async () => { ${body} })().then(
        (value) => respond({ value }),
        (error) => respond({ code: (error.cause ?? error).code, message: (error.cause ?? error).message }),
      );
      return null`;
    await deploy(endpoint("/run", code));
    return JSON.parse(await runtime.get("/run"));
  }

  const denied = expect.objectContaining({ code: "EACCES" });

  test("can connect to other ports of this machine", async () => {
    expect(await run(`return event(load("net").connect(other, "127.0.0.1"), "connect")`)).toEqual({ value: "done" });
  });

  const interfaces = Object.values(networkInterfaces())
    .flatMap((entries) => entries ?? [])
    .map(({ address, scopeid }) => (scopeid ? `${address}%${scopeid}` : address));
  const spellings = ["localhost", "127.0.0.1", "127.8.9.1", "::1", "0.0.0.0", "::", "::ffff:127.0.0.1", "127.1"];
  test.each([...new Set([...spellings, ...interfaces])])(
    "can't connect to a port of the service on %s",
    async (host) => {
      expect(await run(`return event(load("net").connect(own, ${JSON.stringify(host)}), "connect")`)).toEqual(denied);
      expect(own.connections).toBe(0);
    },
  );

  test.each([
    `event(load("http").get("http://127.0.0.1:" + own), "response")`,
    `event(load("https").get("https://127.0.0.1:" + own), "response")`,
    `event(load("http2").connect("http://127.0.0.1:" + own), "connect")`,
    `event(load("tls").connect(own, "127.0.0.1"), "secureConnect")`,
    `inProcess("fetch")("http://127.0.0.1:" + own)`,
    `new Promise((resolve, reject) => load("dgram").createSocket("udp4").send("x", own, "127.0.0.1", reject))`,
    `new Promise((resolve, reject) => load("dgram").createSocket("udp6").send("x", own, "::1", reject))`,
    `new Promise((resolve, reject) => load("dgram").createSocket("udp4").connect(own, "127.0.0.1", reject))`,
    `load("module").createRequire("/")("net") === load("net") && event(load("net").connect(own, "127.0.0.1"), "connect")`,
  ])("can't connect to a port of the service with %s", async (expression) => {
    expect(await run(`return ${expression}`)).toEqual(denied);
    expect(own.connections).toBe(0);
  });

  test("can't connect to a port of the service with a WebSocket", async () => {
    const body = `const socket = new (inProcess("WebSocket"))("ws://127.0.0.1:" + own);
      return new Promise((resolve) => { socket.onopen = socket.onerror = ({ type }) => resolve(type); })`;
    expect(await run(body)).toEqual({ value: "error" });
    expect(own.connections).toBe(0);
  });

  test("can't use a port of the service as a name server", async () => {
    expect(await run(`new (load("dns").Resolver)().setServers(["127.0.0.1:" + own])`)).toMatchObject({
      code: "ERR_DNS_SET_SERVERS_FAILED",
    });
    expect(await run(`return new (load("dns").Resolver)().setServers(["127.0.0.1:" + other])`)).toEqual({});
  });

  test.each(["127.0.0.1", "127.0.0.9", "::1", "0.0.0.0", "::"])(
    "can't listen on a port of the service on %s",
    async (host) => {
      const on = `{ port: own, host: ${JSON.stringify(host)}, reusePort: true }`;
      expect(await run(`return event(load("net").createServer().listen(${on}), "listening")`)).toEqual(denied);
      const type = host.includes(":") ? "udp6" : "udp4";
      expect(
        await run(
          `return event(load("dgram").createSocket("${type}").bind(own, ${JSON.stringify(host)}), "listening")`,
        ),
      ).toEqual(denied);
    },
  );

  test("can't listen on a port that it has taken before the service got it", async () => {
    const bound = (await run(`
      const { _handle: client } = load("net").connect(other, "127.0.0.1").on("error", () => {});
      const server = new client.constructor(1);
      server.bind("127.0.0.9", 0, 0);
      inProcess("globalThis").boundServer = server;
      const name = {};
      server.getsockname(name);
      return name.port`)) as { value: number };
    protectedPorts.add(bound.value);
    expect(await run(`return inProcess("boundServer").listen(1)`)).toEqual({ value: -constants.errno.EACCES });
  });

  test("gets errors that name the option", async () => {
    expect(await run(`return event(load("net").connect(own, "127.0.0.1"), "connect")`)).toEqual({
      code: "EACCES",
      message: expect.stringContaining(
        `flows may not connect to 127.0.0.1 port ${own.port}: a port of the service, its store, its collector or a token issuer, and no entry of the option runtime.network.allow names it`,
      ),
    });
    expect(await run(`return event(load("tls").connect(other, "127.0.0.66"), "secureConnect")`)).toEqual({
      code: "EACCES",
      message: expect.stringContaining("denied by the option runtime.network.deny"),
    });
    await runtime.untilLogged(/may not connect to 127\.0\.0\.66 port \d+: denied by the option runtime.network.deny/);
    expect(await run(`return event(load("net").connect(25, "127.0.0.1"), "connect")`)).toEqual(denied);
  });

  test.each([
    ["http request", { method: "GET", ret: "txt", url: "http://localhost:OWN/" }],
    ["tcp out", { host: "localhost", port: "OWN", beserver: "client", end: true }],
    ["tcp request", { server: "localhost", port: "OWN", out: "time", splitc: "0" }],
    [
      "udp out",
      { addr: "127.0.0.1", iface: "", port: "OWN", outport: "", ipv: "udp4", base64: false, multicast: "false" },
    ],
    [
      "websocket out",
      { client: "C" },
      { type: "websocket-client", path: "ws://localhost:OWN/", tls: "", wholemsg: "false" },
    ],
    [
      "mqtt out",
      { topic: "t", broker: "C" },
      { type: "mqtt-broker", broker: "localhost", port: "OWN", autoConnect: true, protocolVersion: "4" },
    ],
  ])(
    "can't connect to a port of the service with the %s node, and the log names the option",
    async (type, properties, config?: object) => {
      // A denial is logged once per process, so that a loop of a flow does not fill the log.
      const target = await openTarget();
      protectedPorts.add(target.port);
      const text = JSON.stringify([
        tab("T"),
        injectOnce("i", "n"),
        { ...onTab("n"), wires: [[]], type, ...properties },
        ...(config === undefined ? [] : [{ id: "C", ...config }]),
      ]).replaceAll("OWN", String(target.port));
      await deploy(JSON.parse(text) as FlowNode[]);
      const denial = `flows may not connect to .* port ${target.port}: a port of the service`;
      await runtime.untilLogged(new RegExp(denial));
      expect(target.connections).toBe(0);
      target.server.close();
    },
  );

  // The handle of a socket, and the argument that its functions need.
  const handle = `
    const { _handle: handle } = load("net").connect(other, "127.0.0.1").on("error", () => {});
    const request = await new Promise((resolve) => { handle.connect = resolve; });
    delete handle.connect;`;

  test.each([
    ["a handle", `handle.connect(request, "127.0.0.1", own)`],
    ["a handle of its own", `new handle.constructor(0).connect(request, "127.0.0.1", own)`],
    ["more than 16 bits", `handle.connect(request, "127.0.0.1", own + 65536)`],
    ["a NUL", `handle.connect(request, "127.0.0.1\\0", own)`],
    ["a listening handle", `new handle.constructor(1).bind("127.0.0.9", { valueOf: () => own }, 0)`],
  ])("can't reach a port of the service with %s", async (_, expression) => {
    expect(await run(`${handle} return ${expression}`)).toEqual({ value: -constants.errno.EACCES });
    expect(own.connections).toBe(0);
  });

  test("can't change an address between its check and its use", async () => {
    const body = `${handle}
      const texts = ["127.0.0.1", "127.0.0.66"];
      const code = handle.connect(request, { toString: () => texts.shift() }, other);
      return { code, texts }`;
    expect(await run(body)).toEqual({ value: { code: 0, texts: ["127.0.0.66"] } });
  });

  test.each([
    [`inProcess("Reflect")`, `"apply"`, `() => 0`],
    [`inProcess("Reflect")`, `"construct"`, `() => ({})`],
    [`inProcess("Function.prototype")`, `"apply"`, `() => 0`],
    [`inProcess("Function.prototype")`, `"call"`, `() => 0`],
    [`inProcess("Array.prototype")`, `Symbol.iterator`, `function* () {}`],
    [`inProcess("String.prototype")`, `Symbol.iterator`, `function* () {}`],
    [`inProcess("String.prototype")`, `"split"`, `() => ["127.0.0.1"]`],
    [`inProcess("RegExp.prototype")`, `"exec"`, `() => null`],
    [`inProcess("globalThis")`, `"String"`, `() => "192.0.2.1"`],
    [`inProcess("globalThis")`, `"Uint8Array"`, `Array`],
    [`inProcess("Object.prototype")`, `"port"`, `1`],
    [`inProcess("Object.prototype")`, `"subnet"`, `undefined`],
    [`load("net")`, `"isIP"`, `() => 0`],
    [`load("net").SocketAddress`, `"isSocketAddress"`, `() => true`],
  ])("can't reach a port of the service by replacing %s, %s", async (target, key, value) => {
    const body = `${handle}
      const { defineProperty, deleteProperty, getOwnPropertyDescriptor } = Reflect;
      const [target, key] = [${target}, ${key}];
      const { syncBuiltinESMExports } = load("module");
      const previous = getOwnPropertyDescriptor(target, key);
      defineProperty(target, key, { value: ${value}, configurable: true, writable: true });
      try {
        syncBuiltinESMExports();
        return handle.connect(request, "127.0.0.1", own);
      } finally {
        if (previous) defineProperty(target, key, previous);
        else deleteProperty(target, key);
        syncBuiltinESMExports();
      }`;
    expect(await run(body)).toEqual({ value: -constants.errno.EACCES });
    expect(own.connections).toBe(0);
  });
});
