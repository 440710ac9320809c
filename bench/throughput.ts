import type { Benchmark, Effort } from "./benchmark.ts";
import { compare, type OpenComparison } from "./compare.ts";
import { deploy, functionFlows } from "./flows.ts";
import type { Target } from "./load.ts";
import { openBare, openService, type Service } from "./server.ts";

export const login: Benchmark = {
  name: "login",
  title: "GET /auth/login, beside a bare Fastify route that answers the same bytes",
  goal: { kind: "atLeast", value: 0.8, unit: "x" },
  run: (effort) => compare(() => openBesideBare(effort, loginTarget), 64, effort),
};

export const flows: Benchmark = {
  name: "flows",
  title: "GET /flows of 10,000 nodes, beside a bare Fastify route that sends the same cached bytes",
  goal: { kind: "atLeast", value: 0.8, unit: "x" },
  run: (effort) => compare(() => openBesideBare(effort, flowsTarget), 8, effort),
};

export const settings: Benchmark = {
  name: "settings",
  title: "GET /settings with a token, beside a bare Fastify route that answers the same bytes",
  goal: undefined,
  run: (effort) => compare(() => openBesideBare(effort, (service) => authorized(service, "/settings")), 64, effort),
};

export const connect: Benchmark = {
  name: "connect",
  title: "GET /auth/login, beside the same call over Connect (unary, JSON) to the same service",
  goal: undefined,
  run: (effort) => compare(() => openBesideConnect(effort), 64, effort),
};

async function openBesideBare(
  effort: Effort,
  targetOf: (service: Service) => Target | Promise<Target>,
): Promise<OpenComparison> {
  await using stack = new AsyncDisposableStack();
  const target = await targetOf(stack.use(await openService(effort)));
  const response = await fetch(`${target.server.url}${target.path}`, { headers: target.headers ?? {} });
  const bytes = await response.bytes();
  const contentType = response.headers.get("content-type");
  if (!response.ok || contentType === null) {
    throw new Error(`GET ${target.path}: ${response.status}`);
  }
  // Its profile would be taken for the service's.
  const bare = stack.use(await openBare(bytes, contentType, {}));
  const opened = stack.move();
  return {
    subject: ["Flowgate", target],
    yardstick: ["bare Fastify", { ...target, server: bare }],
    [Symbol.asyncDispose]: () => opened.disposeAsync(),
  };
}

async function openBesideConnect(effort: Effort): Promise<OpenComparison> {
  const service = await openService(effort);
  const call: Target = {
    server: service,
    path: "/flowgate.v1.AuthService/GetLogin",
    method: "POST",
    headers: { "content-type": "application/json" },
    body: "{}",
  };
  return {
    subject: ["HTTP", loginTarget(service)],
    yardstick: ["Connect", call],
    [Symbol.asyncDispose]: () => service[Symbol.asyncDispose](),
  };
}

function loginTarget(service: Service): Target {
  return { server: service, path: "/auth/login" };
}

async function flowsTarget(service: Service): Promise<Target> {
  await deploy(service, JSON.stringify({ flows: functionFlows(10_000) }), "full");
  return authorized(service, "/flows");
}

function authorized(service: Service, path: string): Target {
  return { server: service, path, headers: { authorization: service.authorization } };
}
