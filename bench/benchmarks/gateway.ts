import type { Benchmark, Effort } from "../benchmark.ts";
import { compare, type OpenContenders, type RateRatio } from "../compare.ts";
import type { Target } from "../load/target.ts";
import { openPeer } from "../peers/open.ts";
import { openServer } from "../server.ts";
import { jsonOf } from "./login.ts";

type Request = Pick<Target, "path" | "method" | "headers" | "body">;

const json = { "content-type": "application/json" };
const thing = { text: "a thing of a few words", flag: true, small: 41, texts: ["one", "two"] };
const user = { userName: "some-user", age: 41, admin: true };

export const post: Benchmark = {
  name: "post",
  title: "REST: a small POST, by the gateway in Fastify (no operation of the service only responds)",
  run: (effort) =>
    compareStacks(
      effort,
      { path: "/things/echo", method: "POST", headers: json, body: Buffer.from(JSON.stringify(thing)) },
      connectCall("EchoThing", { thing }),
      [
        { title: "REST small POST, of a Fastify POST", of: "gateway", by: "Fastify", goal: 0.8 },
        { title: "… of the same call over stock Connect", of: "gateway", by: "stock Connect" },
      ],
    ),
};

export const get: Benchmark = {
  name: "get",
  title: "REST: a GET with a path variable and two query parameters, by the gateway in Fastify",
  run: (effort) =>
    compareStacks(effort, { path: "/users/some-user?age=41&admin=true" }, connectCall("SendForm", user), [
      { title: "REST GET with parameters, of a Fastify GET", of: "gateway", by: "Fastify", goal: 0.8 },
      { title: "… of the same call over stock Connect", of: "gateway", by: "stock Connect" },
    ]),
};

export const honoPost: Benchmark = {
  name: "hono-post",
  title: "REST: a small POST, by the gateway's fetch handler in Hono on Node",
  run: (effort) =>
    compareInHono(
      effort,
      { path: "/things/echo", method: "POST", headers: json, body: Buffer.from(JSON.stringify(thing)) },
      "REST small POST in Hono, of a Hono POST",
    ),
};

export const honoGet: Benchmark = {
  name: "hono-get",
  title: "REST: a GET with a path variable and two query parameters, by the gateway's fetch handler in Hono on Node",
  run: (effort) =>
    compareInHono(
      effort,
      { path: "/users/some-user?age=41&admin=true" },
      "REST GET with parameters in Hono, of a Hono GET",
    ),
};

function connectCall(method: string, message: object): Request {
  const path = `/gatewaytest.v1.ThingsService/${method}`;
  return { path, method: "POST", headers: json, body: Buffer.from(JSON.stringify(message)) };
}

const entry = new URL("../peers/things.ts", import.meta.url);
const load = { protocol: "http1", connections: 64, callsPerConnection: 1 } as const;

function compareStacks(effort: Effort, rest: Request, connect: Request, ratios: readonly RateRatio[]) {
  const open = async (): Promise<OpenContenders> => {
    // Separate processes, because code that serves several stacks is optimized less.
    await using stack = new AsyncDisposableStack();
    const gateway = stack.use(await openServer(entry, ["gateway"], effort));
    const fastify = stack.use(await openPeer("things.ts", "fastify"));
    const stock = stack.use(await openPeer("things.ts", "connect"));
    const all = stack.move();
    return {
      contenders: [
        { name: "gateway", server: gateway, target: { ...load, ...rest } },
        { name: "Fastify", server: fastify, target: { ...load, ...rest } },
        { name: "stock Connect", server: stock, target: { ...load, ...connect } },
      ],
      [Symbol.asyncDispose]: () => all.disposeAsync(),
    };
  };
  // Connect responds with the whole message, REST with the field that is mapped to the body.
  return compare(
    { open, ratios, normalize: (response, name) => (name === "stock Connect" ? undefined : jsonOf(response)) },
    effort,
  );
}

function compareInHono(effort: Effort, rest: Request, title: string) {
  const open = async (): Promise<OpenContenders> => {
    await using stack = new AsyncDisposableStack();
    const peer = new URL("../peers/hono.ts", import.meta.url);
    const gateway = stack.use(await openServer(peer, ["gateway"], effort));
    const hono = stack.use(await openPeer("hono.ts", "hono"));
    const all = stack.move();
    return {
      contenders: [
        { name: "gateway", server: gateway, target: { ...load, ...rest } },
        { name: "Hono", server: hono, target: { ...load, ...rest } },
      ],
      [Symbol.asyncDispose]: () => all.disposeAsync(),
    };
  };
  return compare({ open, ratios: [{ title, of: "gateway", by: "Hono", goal: 0.8 }], normalize: jsonOf }, effort);
}
