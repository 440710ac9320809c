import type { Benchmark, Effort } from "./benchmark.ts";
import { compare, type OpenComparison } from "./compare.ts";
import type { Target } from "./load.ts";
import { openServer } from "./server.ts";

/** A request without the server that it goes to. */
type Request = Omit<Target, "server">;

const json = { "content-type": "application/json" };
const thing = { text: "a thing of a few words", flag: true, small: 41, texts: ["one", "two"] };

/** Each over HTTP, and over Connect. */
const get = {
  http: { path: "/users/some-user?age=41&admin=true" },
  connect: {
    path: "/transcodingtest.v1.ThingsService/SendForm",
    method: "POST",
    headers: json,
    body: JSON.stringify({ userName: "some-user", age: 41, admin: true }),
  },
} as const satisfies Record<string, Request>;

const post = {
  http: { path: "/things/echo", method: "POST", headers: json, body: JSON.stringify(thing) },
  connect: {
    path: "/transcodingtest.v1.ThingsService/EchoThing",
    method: "POST",
    headers: json,
    body: JSON.stringify({ thing }),
  },
} as const satisfies Record<string, Request>;

export const transcodedGet: Benchmark = {
  name: "transcoded-get",
  title:
    "a GET with a path variable and two query parameters, beside a bare Fastify route that reads and answers the same",
  goal: { kind: "atLeast", value: 0.8, unit: "x" },
  run: (effort) => compare(() => openBesideBare(effort, get.http), 64, effort),
};

export const transcodedPost: Benchmark = {
  name: "transcoded-post",
  title: "a small POST, beside a bare Fastify route that reads and answers the same",
  goal: { kind: "atLeast", value: 0.8, unit: "x" },
  run: (effort) => compare(() => openBesideBare(effort, post.http), 64, effort),
};

export const transcodedGetConnect: Benchmark = {
  name: "transcoded-get-connect",
  title: "the same GET, beside the same call over Connect's own plugin (unary, JSON)",
  goal: { kind: "atLeast", value: 4, unit: "x" },
  run: (effort) => compare(() => openBesideConnect(effort, get), 64, effort),
};

export const transcodedPostConnect: Benchmark = {
  name: "transcoded-post-connect",
  title: "the same POST, beside the same call over Connect's own plugin (unary, JSON)",
  goal: { kind: "atLeast", value: 4, unit: "x" },
  run: (effort) => compare(() => openBesideConnect(effort, post), 64, effort),
};

const entry = new URL("transcoding-server.ts", import.meta.url);

async function openBesideBare(effort: Effort, request: Request): Promise<OpenComparison> {
  await using stack = new AsyncDisposableStack();
  const transcoded = stack.use(await openServer(entry, ["transcoded"], effort));
  const bare = stack.use(await openServer(entry, ["bare"], {}));
  await assertSameAnswer({ ...request, server: transcoded }, { ...request, server: bare });
  const opened = stack.move();
  return {
    subject: ["transcoder", { ...request, server: transcoded }],
    yardstick: ["bare Fastify", { ...request, server: bare }],
    [Symbol.asyncDispose]: () => opened.disposeAsync(),
  };
}

async function openBesideConnect(
  effort: Effort,
  { http, connect }: { http: Request; connect: Request },
): Promise<OpenComparison> {
  // Not in one process: what one does slows the other's code down.
  await using stack = new AsyncDisposableStack();
  const transcoded = stack.use(await openServer(entry, ["transcoded"], effort));
  const stock = stack.use(await openServer(entry, ["transcoded"], {}));
  const opened = stack.move();
  return {
    subject: ["transcoder", { ...http, server: transcoded }],
    yardstick: ["Connect", { ...connect, server: stock }],
    [Symbol.asyncDispose]: () => opened.disposeAsync(),
  };
}

async function assertSameAnswer(one: Target, other: Target): Promise<void> {
  const [ours, theirs] = await Promise.all([answerOf(one), answerOf(other)]);
  if (ours !== theirs) {
    throw new Error(`the answers differ:\n${ours}\n${theirs}`);
  }
}

async function answerOf({ server, path, method = "GET", headers = {}, body }: Target): Promise<string> {
  const response = await fetch(`${server.url}${path}`, { method, headers, ...(body === undefined ? {} : { body }) });
  return `${response.status} ${await response.text()}`;
}
