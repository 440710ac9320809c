import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import type { DescMethod, DescMethodStreaming, DescMethodUnary } from "@bufbuild/protobuf";
import { MethodOptions_IdempotencyLevel } from "@bufbuild/protobuf/wkt";
import type { Transport } from "@connectrpc/connect";
import { createRestTransport } from "@flowgate/gateway/client";
import { accessRules, services } from "../../src/services/api.ts";
import type { AccessRule } from "../../src/auth/permissions.ts";
import { deploy } from "../../test/e2e/deploy.ts";
import { toolsUrl } from "../../test/e2e/editor.ts";
import { functionNode, type Node, tab } from "../../test/e2e/flow-builders.ts";
import { bearer, json, send } from "../../test/e2e/rest.ts";
import { rpcProtocols } from "../../test/e2e/rpc.ts";
import { isRunning, type Service, startService } from "../../test/e2e/service.ts";
import { loginTool, type ToolService } from "../../test/e2e/tools.ts";
import { login, user } from "../../test/e2e/users.ts";
import type { Context, Size } from "../context.ts";
import { costlyMessage, type Shape, shapes } from "../costly-messages.ts";
import type { Control, Drill } from "../drill.ts";
import { preload } from "../preload.ts";
import { readResources } from "../resources.ts";

export const costlyCalls: Drill = {
  name: "costly-calls",
  title: "Costly requests to every operation, route and topic",
  promise:
    "A caller with permission for one operation cannot stall the service with it: the event loop computes for at most 50 ms at a time.",
  method:
    "On a service with 5,000 nodes, each method is called over Connect, gRPC and REST, each route of Node-RED's listener and of pages over HTTP, and each topic of `/comms` is subscribed to, with only the required permission and requests of up to 10 MB: long texts, many items, deep values, characters to escape. The CPU time of the event loop is measured.",
  async run(context) {
    const { progress, size } = context;
    await using attacked = await open(context);
    const { service } = attacked;
    const attempts = [...callsOf(attacked, context), ...routesOf(attacked, context), ...topicsOf(attacked)];
    const violations: string[] = [];
    const counts = new Map<Outcome, number>();
    const stalls: { readonly name: string; readonly ms: number }[] = [];
    for (const [at, { name, make }] of attempts.entries()) {
      const { ms, outcome } = await measure(attacked, make);
      stalls.push({ name, ms });
      counts.set(outcome, (counts.get(outcome) ?? 0) + 1);
      violations.push(...check(size, name, ms));
      if (!(await isRunning(service.pid))) {
        violations.push(`the service has ended after ${name}`);
        break;
      }
      progress(`${at + 1} of ${attempts.length} requests`);
    }
    const [worst] = stalls.toSorted((one, other) => other.ms - one.ms);
    const { peakMiB } = await readResources(service.pid);
    return {
      loads: [
        { name: "requests", count: stalls.length, minimum: attempts.length },
        { name: "of them that succeeded", count: counts.get("ok") ?? 0, minimum: attempts.length / 5 },
        { name: "methods", count: accessRules.size, minimum: 50 },
        { name: "routes", count: attacked.routes.length, minimum: 50 },
      ],
      figures: [
        { name: `longest time that the event loop computed (${worst?.name})`, value: worst?.ms ?? 0, unit: "ms" },
        { name: "highest memory", value: peakMiB, unit: "MiB" },
      ],
      violations: [...violations, ...(peakMiB > maxMiB ? [`memory was ${peakMiB.toFixed(0)} MiB`] : [])],
      controls: [await withoutThreads(context)],
    };
  },
};

const maxMiB = 1_024;
const stallWithinMs = { quick: 250, full: 50 } satisfies Record<Size, number>;

function check(size: Size, name: string, ms: number): string[] {
  return ms > stallWithinMs[size] ? [`the event loop computed for ${ms} ms at ${name}`] : [];
}

type Outcome = "ok" | "refused";

type Attempt = { readonly name: string; readonly make: () => Promise<Outcome> };

type Route = { readonly method: string; readonly url: string; readonly access?: AccessRule };

type Attacked = AsyncDisposable & {
  readonly service: Service;
  readonly tools: string;
  readonly meter: string;
  readonly routes: readonly Route[];
  /** The header fields of a user who may do just that, with a token of the API or one of Node-RED's listener. */
  readonly headersFor: (rule: AccessRule | undefined, isTool?: boolean) => Readonly<Record<string, string>>;
  /** Values of fields that exist, by name. */
  readonly known: Readonly<Record<string, string>>;
};

/** What a user must not do while others are tried, since it ends or replaces what they need. */
const destructive: ReadonlySet<string> = new Set(["StopFlows", "RevokeToken"]);

async function open(context: Context, imports: readonly string[] = []): Promise<Attacked> {
  const dataDir = await context.createFolder();
  const [meter, routesFile] = [join(dataDir, "event-loop"), join(dataDir, "routes")];
  await Promise.all([meter, routesFile].map((file) => writeFile(file, "")));
  const permissions = new Set([...accessRules.values()].flatMap((rule) => permissionOf(rule) ?? []));
  const names = [...permissions, "library.read", "debug.read"];
  const service = await startService({
    config: {
      adminAuth: { users: [user("admin", "*"), ...names.map((name) => user(name, name))] },
      nodeRed: { port: 0, editor: true },
      metrics: { enabled: true },
      log: { level: "info" },
      limits: { eventLoopDelayMs: 0 },
    },
    dataDir,
    env: {
      EVENT_LOOP_METER: meter,
      ROUTES: routesFile,
      MALLOC_ARENA_MAX: "2",
      NODE_OPTIONS: [preload("event-loop-meter").NODE_OPTIONS, preload("list-routes").NODE_OPTIONS, ...imports].join(
        " ",
      ),
    },
  });
  const admin = bearer(await login(service, { username: "admin" }));
  const known = await populate(service, admin, context);
  const tools = toolsUrl(service);
  const sendTool: ToolService["sendTool"] = (...call) => send(tools, ...call);
  const [tokens, toolTokens] = [new Map<string, string>(), new Map<string, string>()];
  for (const name of names) {
    tokens.set(name, await login(service, { username: name, scope: name }));
  }
  const routes = readRoutes(await readFile(routesFile, "utf8"));
  for (const name of new Set(["flows.write", ...routes.flatMap(({ access }) => permissionOf(access) ?? [])])) {
    toolTokens.set(name, await loginTool({ sendTool }, name));
  }
  return {
    service,
    tools,
    meter,
    routes,
    headersFor: (rule, isTool = false) => {
      const name = permissionOf(rule) ?? "flows.write";
      const token = (isTool ? toolTokens : tokens).get(name);
      return rule?.kind === "public" || token === undefined ? {} : bearer(token);
    },
    known,
    [Symbol.asyncDispose]: () => service[Symbol.asyncDispose](),
  };
}

function readRoutes(text: string): Route[] {
  const lines = text.split("\n").filter((line) => line !== "");
  const routes = [...new Set(lines)].map(
    (line) => JSON.parse(line) as Omit<Route, "method"> & { method: string | string[] },
  );
  return routes
    .flatMap(({ method, ...route }) => [method].flat().map((each) => ({ ...route, method: each })))
    .filter(({ method }) => ["GET", "POST", "PUT", "DELETE", "PATCH"].includes(method));
}

function permissionOf(rule: AccessRule | undefined): string | undefined {
  return rule?.kind === "permission" ? rule.permission : undefined;
}

/** Gives the service much to list. */
async function populate(service: Service, admin: Readonly<Record<string, string>>, { pick }: Context) {
  const nodes = Array.from({ length: pick(1_000, 5_000) }, (_, at): Node =>
    functionNode(`n${at}`, {
      z: "T",
      initialize: "node.status({ text: 'x'.repeat(100) }); node.warn('y'.repeat(100));",
    }),
  );
  const flows = [tab("T"), ...nodes];
  const first = await deploy(service, { flows }, "full", admin);
  for (let count = 0; count < pick(3, 20); count++) {
    await deploy(service, { flows: [{ ...tab("T"), info: `${count}` }, ...nodes] }, "nodes", admin);
  }
  const put = (path: string, body: unknown) =>
    service.send("PUT", path, { headers: { ...admin, ...json }, body: JSON.stringify(body) });
  for (let count = 0; count < pick(10, 50); count++) {
    await put(`/library/functions/folder/entry-${count}`, {
      properties: { name: "x".repeat(1_000) },
      body: "y".repeat(10_000),
    });
    await put(`/context/global?key=key${count}`, { value: "z".repeat(10_000) });
  }
  return { rev: first, base: first, node_id: "n1", flow_id: "T", scope: "global" };
}

/** Resolves with the longest time that the event loop computed meanwhile, in ms. */
async function measure({ meter }: Attacked, make: Attempt["make"]): Promise<{ ms: number; outcome: Outcome }> {
  const beganMs = Date.now();
  // What it costs to refuse a request counts too.
  const outcome = await make().catch((): Outcome => "refused");
  // Longer than the meter waits, and what is left to do.
  await delay(30);
  const lines = (await readFile(meter, "utf8")).split("\n").slice(-100);
  const stalls = lines.map((line) => line.split(" ").map(Number)).filter(([atMs = 0]) => atMs > beganMs);
  return { ms: Math.max(0, ...stalls.map(([, ms = 0]) => ms)), outcome };
}

const transports: Readonly<Record<string, (baseUrl: string) => Transport>> = {
  Connect: rpcProtocols["Connect with JSON"],
  gRPC: rpcProtocols.gRPC,
  REST: (baseUrl) => createRestTransport({ baseUrl }),
};

/** Those that change nothing come first, so that what they read is still there. */
const isRead = ({ idempotency }: DescMethod): boolean => idempotency === MethodOptions_IdempotencyLevel.NO_SIDE_EFFECTS;

/** Most methods accept 64 KiB. */
const sizes = [60_000, 2_000_000];

function callsOf({ service, headersFor, known }: Attacked, { pick }: Context): Attempt[] {
  const methods = services
    .flatMap((desc): readonly DescMethod[] => desc.methods)
    .filter(({ name }) => !destructive.has(name))
    .toSorted((one, other) => Number(isRead(other)) - Number(isRead(one)));
  const open = Object.entries(transports).map(([name, create]) => [name, create(service.url)] as const);
  return methods.flatMap((method, index) =>
    shapesAt(index, pick).flatMap((shape, at) =>
      open
        // In small size one of them, in turns.
        .filter((_, each) => pick((index + at) % open.length === each, true))
        .flatMap(([protocol, transport]) =>
          pick([sizes[(index + at) % 2] ?? 0], [...sizes, 10_000_000]).map((bytes) => ({
            name: `${method.parent.name}.${method.name} over ${protocol} with ${shape.name}, ${bytes} bytes`,
            make: () =>
              callMethod(
                transport,
                method,
                costlyMessage(method.input, shape, bytes, known),
                headersFor(accessRules.get(method)),
              ),
          })),
        ),
    ),
  );
}

/** In small size two of them, in turns. */
function shapesAt(index: number, pick: Context["pick"]): readonly Shape[] {
  return shapes.filter((_, at) => pick((index + at) % shapes.length < 2, true));
}

/** Reads the first second of a stream. */
async function callMethod(
  transport: Transport,
  method: DescMethod,
  input: object,
  headers: Readonly<Record<string, string>>,
): Promise<Outcome> {
  if (method.methodKind === "unary") {
    await transport.unary(
      method as DescMethodUnary,
      AbortSignal.timeout(60_000),
      undefined,
      headers,
      input as never,
      undefined,
    );
    return "ok";
  }
  async function* requests() {
    yield input as never;
  }
  const signal = AbortSignal.timeout(1_000);
  const { message } = await transport.stream(
    method as DescMethodStreaming,
    signal,
    undefined,
    headers,
    requests(),
    undefined,
  );
  try {
    for await (const _ of message) {
      // It is only read.
    }
  } catch (error) {
    if (!signal.aborted) {
      throw error;
    }
  }
  return "ok";
}

/** Bodies of requests by type: their parsers differ. */
const bodies: Readonly<Record<string, (shape: Shape) => string>> = {
  "application/json": ({ value }) => JSON.stringify({ a: value(bodyChars), data: value(bodyChars) }),
  "application/x-www-form-urlencoded": ({ text }) =>
    `a=${encodeURIComponent(text(bodyChars / 3))}${"&b=1".repeat(1_000)}`,
  "multipart/form-data; boundary=b": () =>
    `${`--b\r\ncontent-disposition: form-data; name="x"\r\n\r\n1\r\n`.repeat(5_000)}--b--\r\n`,
};

const bodyChars = 500_000;

function routesOf({ service, tools, routes, headersFor }: Attacked, { pick }: Context): Attempt[] {
  return routes.flatMap(({ method, url, access }, index) => {
    // Pages have no such rule.
    const base = access === undefined ? service.url : tools;
    const types = method === "GET" ? [undefined] : Object.keys(bodies);
    return shapesAt(index, pick).flatMap((shape, at) =>
      types
        .filter((_, each) => pick((index + at) % types.length === each, true))
        .map((type) => ({
          name: `${method} ${url} with ${shape.name}${type === undefined ? "" : ` as ${type}`}`,
          async make() {
            const path = url.replaceAll(/:\w+|\*/g, () => encodeURIComponent(shape.text(2_000)) || "functions");
            const body = type === undefined ? undefined : bodies[type]?.(shape);
            const { status } = await send(base, method, `${path}?a=${encodeURIComponent(shape.text(4_000))}`, {
              headers: { ...headersFor(access, true), ...(type !== undefined && { "content-type": type }) },
              ...(body !== undefined && { body }),
              signal: AbortSignal.timeout(30_000),
            });
            return status < 400 ? "ok" : "refused";
          },
        })),
    );
  });
}

/** What an editor subscribes to, and patterns of it. */
const topics = ["status/#", "debug", "notification/#", "#", "+/+", `${"+/".repeat(2_000)}#`, "x".repeat(50_000)];

function topicsOf({ tools, headersFor }: Attacked): Attempt[] {
  const { authorization = "" } = headersFor({ kind: "permission", permission: "events.read" }, true);
  const messages = [
    ...topics.map((topic) => JSON.stringify({ subscribe: topic })),
    ...shapes.map(({ value }) => JSON.stringify({ subscribe: value(50_000) })),
  ];
  return messages.map((message) => ({
    name: `/comms with ${message.slice(0, 60)}`,
    async make() {
      const sockets = Array.from({ length: 20 }, () => new WebSocket(`${tools.replace("http", "ws")}/comms`));
      await Promise.all(
        sockets.map(async (socket) => {
          await new Promise((resolve) => {
            socket.addEventListener("open", resolve);
            socket.addEventListener("error", resolve);
          });
          socket.send(JSON.stringify({ auth: authorization.replace("Bearer ", "") }));
          socket.send(message);
        }),
      );
      await delay(1_000);
      sockets.forEach((socket) => socket.close());
      return "ok";
    },
  }));
}

async function withoutThreads(context: Context): Promise<Control> {
  const fixture = preload("analysis-on-the-event-loop").NODE_OPTIONS;
  await using attacked = await open(context, [fixture]);
  const { service, headersFor } = attacked;
  const headers = { ...json, ...headersFor({ kind: "permission", permission: "flows.read" }) };
  const { ms } = await measure(attacked, async () => {
    await service.send("POST", "/flows:plan", { headers, body: JSON.stringify([tab("T")]) });
    return "ok";
  });
  return { planted: "each plan computes on the event loop for 300 ms", found: check(context.size, "a plan", ms) };
}
