import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { expect, test } from "vitest";
import { WebSocket } from "ws";
import { OpenCalls } from "../../../../src/auth/open-calls.ts";
import { Authenticator } from "../../../../src/auth/authenticator.ts";
import type { AdminAuth } from "../../../../src/auth/accounts.ts";
import { createLimiter } from "../../../../src/auth/limiter.ts";
import { EventHub } from "../../../../src/events/hub.ts";
import { EventsService } from "@flowgate/client";
import { FlowgateError } from "@flowgate/flows/errors";
import { InProcessApi } from "../../../../src/app/in-process-api.ts";
import { ToolCallers } from "../../../../src/app/tool-callers.ts";
import { createGate } from "../../../../src/auth/gate.ts";
import { ToolAuthenticator } from "../../../../src/auth/tool-authenticator.ts";
import { createNoJournal } from "../../../../src/events/journal.ts";
import { toConnectError } from "../../../../src/server/pipeline/errors.ts";
import { accessRules } from "../../../../src/services/api.ts";
import { eventsService } from "../../../../src/services/events.ts";
import { serveComms } from "../../src/comms/server.ts";
import type { CommsMessage } from "../../src/comms/messages.ts";
import { createMemoryAttempts } from "../../../../src/store/login-attempts.ts";
import { collectEvents, origin } from "../../../../test/auth/collect-events.ts";
import { createMemoryTokens } from "../../../../test/auth/memory-tokens.ts";
import { adminAuth, known } from "../../../../test/auth/users.ts";

const users = adminAuth({ ada: ["*"], viewer: ["read"], stranger: ["flows.write"] });

type ServerOptions = {
  readonly configured?: AdminAuth | undefined;
  readonly refusal?: number | undefined;
  readonly isShown?: () => boolean;
};

async function start({ configured, refusal, isShown = () => true }: ServerOptions = {}) {
  const stack = new AsyncDisposableStack();
  const tokens = createMemoryTokens();
  const { audit, uses, events: audited } = collectEvents();
  const limiter = createLimiter(createMemoryAttempts());
  const authenticator = new Authenticator({ adminAuth: configured, tokens, uses, audit, permissions: known, limiter });
  const tools = new ToolAuthenticator(authenticator, { isReadOnly: false });
  const calls = stack.use(new OpenCalls({ authenticator: tools, tokens }));
  const hub = new EventHub({ runtime: "", lastSeq: 0 });
  const join = () => ({ feed: hub, ready: undefined, [Symbol.dispose]() {} });
  const events = eventsService({ join, journal: createNoJournal(), audit, calls });
  const api = new InProcessApi({
    routes: (router) => router.service(EventsService, events),
    gate: createGate(tools, accessRules, audit),
    toError: (error) => (error instanceof FlowgateError ? toConnectError(error) : (error as Error)),
  });
  const server = createServer((_, response) => response.end());
  await once(server.listen(0, "127.0.0.1"), "listening");
  stack.defer(() => server.close().closeAllConnections());
  const limit = async () => {};
  const callers = new ToolCallers({ tools, openCalls: calls, audit, api, limit, signIn: undefined });
  const client = {
    source: "127.0.0.1",
    revisionUrl: undefined,
    authenticate: (authorization: string | null) =>
      callers.authenticate({ address: "127.0.0.1", requestId: "1" }, authorization),
  };
  const comms = serveComms(server, {
    host: { isShown, admitSocket: () => refusal ?? client },
    palette: { begin: () => ({ [Symbol.dispose]() {} }), messagesOf: async () => [] },
  });
  stack.use(comms);
  const url = `ws://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return {
    hub,
    comms,
    url,
    denied: () => audited.filter(({ kind }) => kind === "permission_denied").map(({ origin: { by } }) => by),
    authenticator,
    issue: async (username: string): Promise<string> => {
      const request = { clientId: "node-red-editor", grantType: "password", username, password: `${username}-secret` };
      return (await tools.issueToken(request, { origin, authorization: null })).accessToken;
    },
    [Symbol.asyncDispose]: () => stack.disposeAsync(),
  };
}

/** A client that collects what it receives. */
async function connect(url: string) {
  const socket = new WebSocket(`${url}/comms`);
  const messages: CommsMessage[] = [];
  const auth: string[] = [];
  let wake = (): void => {};
  const closed = Promise.withResolvers<number>();
  socket.on("message", (data: Buffer) => {
    const value = JSON.parse(data.toString()) as { auth: string } | CommsMessage[];
    if (Array.isArray(value)) {
      messages.push(...value);
    } else {
      auth.push(value.auth);
    }
    wake();
  });
  socket.on("close", (code) => closed.resolve(code));
  await once(socket, "open");
  const until = async (isThere: () => boolean): Promise<void> => {
    while (!isThere()) {
      await new Promise<void>((resolve) => {
        wake = resolve;
      });
    }
  };
  return {
    socket,
    messages,
    auth,
    closed: closed.promise,
    send: (value: unknown) => socket.send(typeof value === "string" ? value : JSON.stringify(value)),
    until,
    untilTopic: (topic: string) => until(() => messages.some((message) => message.topic === topic)),
    [Symbol.dispose]: () => socket.terminate(),
  };
}

const status = (nodeId: string, text: string) => ({ nodeId, kind: { case: "nodeStatus", value: { text } } }) as const;
const debug = (value: string) => ({ nodeId: "d", flowId: "t", kind: { case: "debug", value: { value } } }) as const;

test("without users, a client gets the states of what it subscribes to, and then what happens", async () => {
  await using server = await start();
  server.hub.publish(status("before", "1"));
  using client = await connect(server.url);
  client.send({ subscribe: "status/#" });
  await client.untilTopic("status/before");
  expect(server.hub.wants("debug")).toBe(false);
  client.send({ subscribe: "debug" });
  client.send({ subscribe: "status/absent" });
  server.hub.publish(status("after", "2"));
  await client.untilTopic("status/after");
  expect(server.hub.wants("debug")).toBe(true);
  server.hub.publish(debug("<b>shown</b>"));
  await client.untilTopic("debug");
  expect(client.messages).toEqual([
    { topic: "status/before", data: { text: "1" } },
    { topic: "status/after", data: { text: "2" } },
    { topic: "debug", data: { id: "d", z: "t", path: "t", msg: "<b>shown</b>", format: "" } },
  ]);
  expect(client.auth).toEqual([]);
});

test("a client gets what modules have published under the topics that it has subscribed to", async () => {
  await using server = await start({ configured: users });
  const publish = (topic: string, retained = false) =>
    server.hub.publish({ kind: { case: "editorMessage", value: { topic, data: `"${topic}"`, retained } } });
  publish("say/kept", true);
  publish("say/before");
  publish("other/kept", true);
  using client = await connect(server.url);
  using viewer = await connect(server.url);
  client.send({ auth: await server.issue("ada") });
  viewer.send({ auth: await server.issue("viewer") });
  for (const { send } of [client, viewer]) {
    send({ subscribe: "say/#" });
    send({ subscribe: "a/+/c" });
    send({ subscribe: "status/#" });
  }
  await client.untilTopic("say/kept");
  await viewer.until(() => viewer.auth.length > 0);
  for (const topic of ["say", "saying", "other", "a/b/c", "a/b/c/d", "a/c", "notification/say", "say/last"]) {
    publish(topic);
  }
  server.hub.publish(status("end", "1"));
  await client.untilTopic("say/last");
  await viewer.untilTopic("status/end");
  expect(client.messages.map(({ topic }) => topic).filter((topic) => topic !== "status/end")).toEqual([
    "say/kept",
    "say",
    "a/b/c",
    "say/last",
  ]);
  expect(client.messages[0]).toEqual({ topic: "say/kept", data: "say/kept" });
  // It is the data of messages, as that of debug nodes.
  expect(viewer.messages.map(({ topic }) => topic)).toEqual(["status/end"]);
});

test("with users, the first message must have a valid token", async () => {
  await using server = await start({ configured: users });
  for (const first of [{ subscribe: "status/#" }, { auth: "x".repeat(43) }, { auth: "" }, "no JSON", "[]"]) {
    using client = await connect(server.url);
    client.send(first);
    expect(await client.closed).toBe(1000);
    expect(client.auth).toEqual(["fail"]);
  }
  using stranger = await connect(server.url);
  stranger.send({ auth: await server.issue("stranger") });
  expect(await stranger.closed).toBe(1000);
  expect(server.denied()).toEqual([undefined, undefined, undefined, "stranger"]);

  using client = await connect(server.url);
  client.send({ auth: await server.issue("ada") });
  client.send({ subscribe: "debug" });
  await client.until(() => client.auth.length > 0);
  expect(client.auth).toEqual(["ok"]);
  await expect.poll(() => server.hub.wants("debug")).toBe(true);
});

test("a user who may not read debug messages gets all others", async () => {
  await using server = await start({ configured: users });
  using client = await connect(server.url);
  client.send({ auth: await server.issue("viewer") });
  client.send({ subscribe: "debug" });
  client.send({ subscribe: "status/#" });
  await client.until(() => client.auth.length > 0);
  await expect.poll(() => server.hub.wants("nodeStatus")).toBe(true);
  server.hub.publish(debug("hidden"));
  server.hub.publish(status("n", "1"));
  await client.untilTopic("status/n");
  expect(server.hub.wants("debug")).toBe(false);
  expect(client.messages.map(({ topic }) => topic)).toEqual(["status/n"]);
});

test("a source can't take the sessions of others without a token", async () => {
  await using server = await start({ configured: users });
  await using silent = new AsyncDisposableStack();
  const clients: Awaited<ReturnType<typeof connect>>[] = [];
  for (let n = 0; n < 50; n += 1) {
    clients.push(silent.use(await connect(server.url)));
  }
  expect(await refused(`${server.url}/comms`)).toEqual([503]);
  const [first] = clients;
  first?.send({ auth: await server.issue("ada") });
  await first?.until(() => first.auth.length > 0);
  using client = await connect(server.url);
  client.send({ auth: await server.issue("ada") });
  await client.until(() => client.auth.length > 0);
  expect(client.auth).toEqual(["ok"]);
});

test("a session ends when its token is revoked", async () => {
  await using server = await start({ configured: users });
  const token = await server.issue("ada");
  using client = await connect(server.url);
  client.send({ auth: token });
  await client.until(() => client.auth.length > 0);
  await server.authenticator.revokeToken(token, origin);
  expect(await client.closed).toBe(1000);
  expect(client.auth).toEqual(["ok", "fail"]);
  expect(server.hub.streamCount).toBe(0);
});

test("a session has the token that was sent last", async () => {
  await using server = await start({ configured: users });
  const [first, second] = [await server.issue("ada"), await server.issue("ada")];
  using client = await connect(server.url);
  client.send({ auth: first });
  client.send({ auth: second });
  await client.until(() => client.auth.length > 1);
  await server.authenticator.revokeToken(first, origin);
  client.send({ subscribe: "debug" });
  await expect.poll(() => server.hub.wants("debug")).toBe(true);
  server.hub.publish(debug("1"));
  await client.untilTopic("debug");
  // This user may not read what the session is sent.
  client.send({ auth: await server.issue("viewer") });
  expect(await client.closed).toBe(1000);
  expect(client.auth).toEqual(["ok", "ok", "fail"]);
});

test("a deployment is reported once, whatever becomes of it", async () => {
  await using server = await start();
  using client = await connect(server.url);
  client.send({ subscribe: "notification/#" });
  await expect.poll(() => server.hub.wants("deployment")).toBe(true);
  for (const rev of ["1", "1", "2"]) {
    server.hub.publish({ rev, kind: { case: "deployment", value: {} } });
  }
  const revisions = (): unknown[] =>
    client.messages.filter(({ topic }) => topic === "notification/runtime-deploy").map(({ data }) => data);
  await client.until(() => revisions().length >= 2);
  expect(revisions()).toEqual([{ revision: "1" }, { revision: "2" }]);
});

test("messages that are too large, binary or too many end the session", async () => {
  await using server = await start();
  const attempts: [(socket: WebSocket) => void, number][] = [
    [(socket) => socket.send("x".repeat(9_000)), 1009],
    [(socket) => socket.send(Buffer.from("{}")), 1008],
    [(socket) => Array.from({ length: 1_000 }).forEach(() => socket.send(`{"subscribe":"a"}`)), 1008],
  ];
  for (const [attempt, code] of attempts) {
    using client = await connect(server.url);
    attempt(client.socket);
    expect(await client.closed).toBe(code);
  }
});

test("states are sent in small parts, and none replaces a later one", async () => {
  let inTurn = 0;
  let mostInTurn = 0;
  const isShown = (): boolean => {
    if (inTurn === 0) {
      setImmediate(() => (inTurn = 0));
    }
    inTurn += 1;
    mostInTurn = Math.max(mostInTurn, inTurn);
    return true;
  };
  await using server = await start({ isShown });
  for (let n = 0; n < 2_000; n += 1) {
    server.hub.publish(status(`n${n}`, "before"));
  }
  using client = await connect(server.url);
  client.send({ subscribe: "status/#" });
  await client.untilTopic("status/n0");
  server.hub.publish(status("n1999", "after"));
  await client.until(() => client.messages.some(({ data }) => (data as { text: string }).text === "after"));
  const texts = client.messages.filter(({ topic }) => topic === "status/n1999");
  expect(texts.map(({ data }) => data)).toEqual([{ text: "before" }, { text: "after" }]);
  expect(new Set(client.messages.map(({ topic }) => topic)).size).toBe(2_000);
  expect(mostInTurn).toBeLessThan(200);
});

test("a client that asks for all states again and again without reading them is disconnected", async () => {
  await using server = await start();
  for (let n = 0; n < 100; n += 1) {
    server.hub.publish(status(`n${n}`, "x".repeat(5_000)));
  }
  using client = await connect(server.url);
  client.socket.pause();
  for (let n = 0; n < 4; n += 1) {
    Array.from({ length: 60 }).forEach(() => client.send({ subscribe: "status/#" }));
    // The server has received these when it accepts another client.
    using _ = await connect(server.url);
  }
  client.socket.resume();
  expect(await client.closed).toBe(1008);
});

test("closing ends the sessions, so that editors connect again elsewhere", async () => {
  await using server = await start();
  using client = await connect(server.url);
  client.send({ subscribe: "debug" });
  await expect.poll(() => server.hub.wants("debug")).toBe(true);
  await server.comms[Symbol.asyncDispose]();
  expect(await client.closed).toBe(1012);
  expect(server.hub.streamCount).toBe(0);
  const [response] = await refused(`${server.url}/comms`);
  expect(response).toBe(503);
});

test.each([
  ["/comms", 403, 403],
  ["/comms?x=1", 421, 421],
  ["/other", undefined, 404],
])("an upgrade of %s that is refused with %s gets %s", async (path, refusal, expected) => {
  await using server = await start({ refusal });
  expect(await refused(server.url + path)).toEqual([expected]);
});

async function refused(url: string): Promise<[number | undefined]> {
  const socket = new WebSocket(url);
  socket.on("error", () => {});
  const [, response] = (await once(socket, "unexpected-response")) as [unknown, { statusCode?: number }];
  socket.terminate();
  return [response.statusCode];
}
