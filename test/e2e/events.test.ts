import { once } from "node:events";
import { connect } from "node:http2";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createDatabase } from "../postgres/postgres.ts";
import { block } from "../../packages/runtime/test/flow-builders.ts";
import { deploy } from "./deploy.ts";
import { endpoint, functionNode, type Node, tab } from "./flow-builders.ts";
import { bearer, json } from "./rest.ts";
import { eventually, type Service, startService, withoutRuntime } from "./service.ts";
import { login, user } from "./users.ts";
import { openStream, type Seen, watch, watchProtocols, type WatchQuery } from "./watch-events.ts";

/** Each new runtime process takes as much time as most of these tests. */
const sameProcess = { runtime: { freshProcess: "never" } } as const;

const sse = watchProtocols["SSE"] as (typeof watchProtocols)[string];
const protocolNames = Object.keys(watchProtocols);

/** GET /go makes a function node log an error, a warning and an entry, and another node of another tab a warning. */
function noisy(name: string): Node[] {
  return [
    ...endpoint("/go", `node.error("first of ${name}"); node.warn("second of ${name}"); node.log("third of ${name}")`),
    tab("other"),
    functionNode("o", { z: "other", name: "Other", func: `node.warn("fourth of ${name}");` }),
    { id: "l-in", type: "link in", z: "other", name: "", links: ["l-out"], x: 1, y: 1, wires: [["o"]] },
    { id: "l-out", type: "link out", z: "tab of /go", name: "", mode: "link", links: ["l-in"], x: 1, y: 1, wires: [] },
    functionNode("between", { z: "tab of /go", func: "return msg;", wires: [["l-out"]] }),
  ].map((node) => (node.id === "/go in" ? { ...node, wires: [["/go function", "between"]] } : node));
}

function messageOf({ kind, event }: Seen): unknown {
  return (event[kind] as { readonly message?: unknown }).message;
}

function isOutcome(outcome: string) {
  return ({ kind, event }: Seen): boolean =>
    kind === "deployment" && (event["deployment"] as { outcome: string }).outcome === outcome;
}

describe("a service with users", () => {
  let service: Service;
  let admin: Record<string, string>;
  const as = async (username: string, scope: string) => bearer(await login(service, { username, scope }));

  beforeAll(async () => {
    const users = [user("admin", "*"), user("reader", "read"), user("narrow", ["events.read", "flows.read"])];
    service = await startService({ config: { ...sameProcess, adminAuth: { users } } });
    admin = await as("admin", "*");
  });
  afterAll(() => service?.[Symbol.asyncDispose]());

  test("every protocol has the current state and then each deployment with its outcomes, under the same ids", async () => {
    await using stack = new AsyncDisposableStack();
    const query = { kinds: ["deployment", "runtime_state"] };
    const watches = protocolNames.map((name) =>
      stack.use(watch(watchProtocols[name] ?? sse, service.url, query, admin)),
    );
    const snapshots = await Promise.all(watches.map((each) => each.until(({ kind }) => kind === "snapshotEnd")));
    for (const snapshot of snapshots) {
      expect(snapshot.map(({ kind }) => kind).toSorted()).toEqual(["deployment", "runtimeState", "snapshotEnd"]);
    }
    const send = { ...admin, "service-deployment-message": "new greeting" };
    const rev = await deploy(service, { flows: noisy("a") }, "full", send);
    const failedRev = await deploy(service, { flows: [{ id: "x", type: "no such type", wires: [] }] }, "full", admin);
    const all = await Promise.all(watches.map((each) => each.until(isOutcome("failed"))));
    const live = all.map((seen) => seen.slice(seen.findIndex(({ kind }) => kind === "snapshotEnd") + 1));
    for (const seen of live) {
      expect(seen).toEqual(live[0]);
    }
    const deployments = live[0]?.filter(({ kind }) => kind === "deployment").map(({ event }) => event) ?? [];
    const common = { user: "admin", type: "full" };
    const first = { ...common, message: "new greeting" };
    expect(deployments).toMatchObject([
      { rev, deployment: { ...first, outcome: "pending" } },
      { rev, deployment: { ...first, outcome: "running" } },
      { rev: failedRev, deployment: { ...common, outcome: "pending", parent: rev } },
      {
        rev: failedRev,
        deployment: { outcome: "failed", failure: "missing node types: no such type", missingTypes: ["no such type"] },
      },
    ]);
    const ids = live[0]?.map(({ id }) => id) ?? [];
    expect(ids).toEqual(ids.toSorted());
    expect(new Set(ids).size).toBe(ids.length);
    const states = live[0]?.filter(({ kind }) => kind === "runtimeState").map(({ event }) => event["runtimeState"]);
    expect(states?.at(-1)).toMatchObject({ state: "failed" });
  });

  test("the state of the runtime has the reason of a change, and the node", async () => {
    await using events = watch(sse, service.url, { kinds: ["runtime_state"] }, admin);
    await events.until(({ kind }) => kind === "snapshotEnd");
    await deploy(service, { flows: endpoint("/block", `\n  ${block}`) }, "full", admin);
    await service.get("/block", admin).catch(() => {});
    const seen = await events.until(({ event }) => JSON.stringify(event).includes("blocked"));
    const message = `a flow blocked it (function "/block function", flow "tab tab of /block", line 2)`;
    const { runtimeState, ...event } = seen.at(-1)?.event ?? {};
    expect(runtimeState).toMatchObject({ state: "restarting", message, reason: "blocked", line: 2 });
    expect(event).toMatchObject({
      nodeId: "/block function",
      nodeType: "function",
      flowId: "tab of /block",
      flowLabel: "tab tab of /block",
    });
  });

  describe("with flows that have logged", () => {
    let before: Seen;
    let since: Date;

    beforeAll(async () => {
      await deploy(service, { flows: noisy("a") }, "full", admin);
      since = new Date();
      await using events = watch(sse, service.url, {}, admin);
      before = (await events.until(({ kind }) => kind === "snapshotEnd")).at(-1) as Seen;
      await service.get("/go", admin);
      await events.until((seen) => messageOf(seen) === "fourth of a");
      await events.until((seen) => messageOf(seen) === "third of a");
    });

    const rows: [string, WatchQuery, string[]][] = [
      ["a kind", { kinds: ["log"] }, ["third of a"]],
      ["several kinds", { kinds: ["log", "node_error"] }, ["first of a", "second of a", "third of a", "fourth of a"]],
      ["a tab", { kinds: ["node_error", "log"], tab: "other" }, ["fourth of a"]],
      ["the id of a node", { kinds: ["node_error"], node: "/go function" }, ["first of a", "second of a"]],
      ["the name of a node", { node: "Other" }, ["fourth of a"]],
      ["the type of a node", { kinds: ["log"], node: "function" }, ["third of a"]],
      ["a level", { kinds: ["node_error", "log"], level: "error" }, ["first of a"]],
    ];

    test.each(rows)("streams and logs are filtered by %s", async (_, query, expected) => {
      for (const [name, open] of Object.entries(watchProtocols)) {
        await using events = watch(open, service.url, { ...query, after: before.id }, admin);
        const [first, ...seen] = await events.until((each) => messageOf(each) === expected.at(-1));
        expect({ name, first }).toMatchObject({ name, first: { kind: "bookmark", id: before.id } });
        expect(seen.map((each) => messageOf(each))).toEqual(expected);
      }
      expect(await listLogs({ ...query, since })).toEqual(expected.toReversed());
    });

    test("a stream begins with what was recorded since a time", async () => {
      await using events = watch(sse, service.url, { kinds: ["node_error"], since }, admin);
      const seen = await events.until((each) => messageOf(each) === "fourth of a");
      expect(seen.map((each) => messageOf(each))).toEqual([undefined, "first of a", "second of a", "fourth of a"]);
    });

    test("Last-Event-ID takes precedence over after, as EventSource sends it", async () => {
      const headers = { ...admin, "last-event-id": before.id };
      await using events = watch(sse, service.url, { kinds: ["log"], after: "1" }, headers);
      const seen = await events.until((each) => messageOf(each) === "third of a");
      expect(seen[0]).toMatchObject({ kind: "bookmark", id: before.id });
    });

    test("an event names the node and its tab", async () => {
      await using events = watch(sse, service.url, { kinds: ["node_error"], node: "Other", after: before.id }, admin);
      const seen = await events.until((each) => messageOf(each) === "fourth of a");
      expect(seen.at(-1)?.event).toMatchObject({
        nodeId: "o",
        nodeType: "function",
        nodeName: "Other",
        flowId: "other",
        nodeError: { level: "warn", message: "fourth of a", count: 1 },
      });
    });

    test("pages of /logs have every entry once, newest first", async () => {
      const all = await listLogs({ kinds: ["node_error", "log"], since });
      const pages: unknown[] = [];
      let pageToken = "";
      do {
        const target = `/logs?kinds=node_error&kinds=log&since=${since.toISOString()}&pageSize=1&pageToken=${pageToken}`;
        const reply = await service.send("GET", target, { headers: admin });
        const page = reply.json() as { logs: Record<string, unknown>[]; nextPageToken?: string };
        expect(page.logs.length).toBeLessThanOrEqual(1);
        pages.push(
          ...page.logs.map((event) => messageOf({ id: "", kind: "log" in event ? "log" : "nodeError", event })),
        );
        pageToken = page.nextPageToken ?? "";
      } while (pageToken !== "");
      expect(pages).toEqual(all);
    });

    test("a reader without logs.read has no logs, neither recorded ones nor those that come", async () => {
      const reader = await as("reader", "read");
      await using stack = new AsyncDisposableStack();
      const queries: WatchQuery[] = [{}, { since }, { after: before.id }];
      const watches = Object.values(watchProtocols).flatMap((open) =>
        queries.map((query) => stack.use(watch(open, service.url, query, reader))),
      );
      await Promise.all(watches.map((each) => each.until(({ kind }) => ["snapshotEnd", "bookmark"].includes(kind))));
      await using all = watch(sse, service.url, { kinds: ["log"] }, admin);
      await all.until(({ kind }) => kind === "snapshotEnd");
      await service.get("/go", admin);
      await all.until(({ kind }) => kind === "log");
      await Promise.all(watches.map((each) => each.until((seen) => messageOf(seen) === "fourth of a")));
      const rev = await deploy(service, { flows: noisy("b") }, "full", admin);
      for (const each of watches) {
        const seen = await each.until((event) => isOutcome("running")(event) && event.event["rev"] === rev);
        expect(seen.filter(({ kind }) => kind === "log")).toEqual([]);
      }
    });

    async function listLogs({ since: from, kinds = [], ...query }: WatchQuery): Promise<unknown[]> {
      const parameters = new URLSearchParams({ ...query, since: (from ?? since).toISOString() });
      for (const kind of kinds) {
        parameters.append("kinds", kind);
      }
      const reply = await service.send("GET", `/logs?${parameters.toString()}`, { headers: admin });
      expect(reply.status).toBe(200);
      const { logs } = reply.json() as { logs: Record<string, unknown>[] };
      return logs.map((event) => messageOf({ id: "", kind: "log" in event ? "log" : "nodeError", event }));
    }
  });

  test.each([
    ["/events?kinds=nothing", /^kinds/],
    ["/events?level=loud", /^level/],
    ["/events?after=NO", "after: must be the id of an event"],
    ["/logs?kinds=nothing", /^kinds/],
    ["/logs?level=loud", /^level/],
    ["/logs?pageToken=no", "pageToken: must be the nextPageToken of the previous page"],
    ["/logs?pageSize=-1", "pageSize: must not be negative"],
  ])("GET %s is rejected", async (path, message) => {
    const reply = await service.send("GET", path, { headers: admin });
    const expected = { code: "invalid_argument", message: expect.stringMatching(message) as string };
    expect([reply.status, reply.json()]).toEqual([400, expected]);
  });

  test("events, debug messages and logs have permissions of their own", async () => {
    const [reader, narrow] = [await as("reader", "read"), await as("narrow", "flows.read")];
    const status = async (path: string, headers: Record<string, string>) => {
      const response = await openStream(`${service.url}${path}`, {}, headers);
      response.destroy();
      return response.statusCode;
    };
    const get = async (path: string, headers: Record<string, string>) =>
      (await service.send("GET", path, { headers })).status;
    expect(await status("", reader)).toBe(200);
    expect(await status("", narrow)).toBe(401);
    expect(await status("", {})).toBe(401);
    const debug = await service.send("GET", "/events?kinds=debug&kinds=log", { headers: reader });
    expect([debug.status, debug.headers["www-authenticate"]]).toEqual([
      401,
      'Bearer realm="flowgate", error="insufficient_scope", scope="debug.read"',
    ]);
    expect([await get("/logs", reader), await get("/logs", admin)]).toEqual([401, 200]);
    const log = await service.send("GET", "/events?kinds=log", { headers: reader });
    expect([log.status, log.headers["www-authenticate"]]).toEqual([
      401,
      'Bearer realm="flowgate", error="insufficient_scope", scope="logs.read"',
    ]);
    for (const [name, open] of Object.entries(watchProtocols).slice(2)) {
      for (const kind of ["debug", "log"]) {
        await using events = watch(open, service.url, { kinds: [kind] }, reader);
        expect([name, kind, await events.ended]).toEqual([name, kind, "permission_denied"]);
      }
    }
  });

  test("tokens that are created and revoked are events, and a stream ends with its token", async () => {
    await using events = watch(sse, service.url, { kinds: ["token"] }, admin);
    await events.until(({ kind }) => kind === "snapshotEnd");
    const created = await service.send("POST", "/tokens", {
      headers: { ...admin, ...json },
      body: JSON.stringify({ name: "short", scope: "events.read" }),
    });
    const { accessToken, token } = created.json() as { accessToken: string; token: { id: string } };
    await using stack = new AsyncDisposableStack();
    const watches = Object.values(watchProtocols).map((open) =>
      stack.use(watch(open, service.url, {}, bearer(accessToken))),
    );
    await Promise.all(watches.map((each) => each.until(({ kind }) => kind === "snapshotEnd")));
    expect((await service.send("DELETE", `/tokens/${token.id}`, { headers: admin })).status).toBe(204);
    const ends = await Promise.all(watches.map((each) => each.ended));
    expect(ends).toEqual(protocolNames.map((_, at) => (at < 2 ? "invalid_token" : "unauthenticated")));
    const seen = await events.until(({ event }) => JSON.stringify(event).includes("revoked"));
    expect(seen.slice(1).map(({ event }) => event["token"])).toEqual([
      { action: "created", subject: token.id, user: "admin" },
      { action: "revoked", subject: token.id, user: "admin" },
    ]);
  });

  test("the value of a credential that a function node throws is in no event and no log", async () => {
    const secret = "correct horse battery staple";
    const flows = endpoint("/leak", `node.warn("is ${secret}?"); node.error(new Error("it is ${secret}!"))`);
    const broker = { id: "b", type: "mqtt-broker", name: "", broker: "127.0.0.1", port: "1", autoConnect: false };
    await using events = watch(sse, service.url, {}, admin);
    await deploy(
      service,
      { flows: [...flows, broker], credentials: { b: { user: "u", password: secret } } },
      "full",
      admin,
    );
    await service.get("/leak", admin);
    await events.until((seen) => String(messageOf(seen)).startsWith("Error: it is"));
    const logs = (await service.send("GET", "/logs?pageSize=1000", { headers: admin })).body;
    const shown = `${JSON.stringify(events.seen)}${logs}`;
    expect(shown).toContain("is [redacted]?");
    expect(shown).toContain("Error: it is [redacted]!");
    expect(shown).not.toContain(secret);
  });
});

test("a stream resumes after a kill of the service, with each recorded event once under its id", async () => {
  const config = { config: sameProcess };
  await using first = await startService(config);
  await using events = watch(sse, first.url);
  await events.until(({ kind }) => kind === "snapshotEnd");
  await deploy(first, { flows: noisy("a") });
  await first.get("/go");
  await events.until((seen) => messageOf(seen) === "fourth of a");
  await events.until((seen) => messageOf(seen) === "third of a");
  const middle = events.seen.find(({ kind }) => kind === "deployment" || kind === "nodeError") as Seen;
  const before = events.seen.slice(events.seen.indexOf(middle) + 1).filter(({ kind }) => kind !== "snapshotEnd");
  // What was seen before a list is recorded.
  await first.send("GET", "/logs");
  await first.kill9();
  await using second = await startService({ ...config, dataDir: first.dataDir });
  for (const [name, open] of Object.entries(watchProtocols)) {
    await using resumed = watch(open, second.url, { after: middle.id });
    await resumed.until(({ id }) => id === before.at(-1)?.id);
    const replayed = resumed.seen.filter(({ id }) => before.some((seen) => seen.id === id));
    expect({ name, replayed }).toEqual({ name, replayed: before });
  }
  await using resumed = watch(sse, second.url, {}, { "last-event-id": middle.id });
  const rev = await deploy(second, { flows: noisy("b") });
  await resumed.until((seen) => isOutcome("running")(seen) && seen.event["rev"] === rev);
  const recorded = resumed.seen.filter(({ kind }) => !["bookmark", "dropped"].includes(kind));
  const ids = recorded.map(({ id }) => id);
  expect(ids.slice(0, before.length)).toEqual(before.map(({ id }) => id));
  expect(ids).toEqual(ids.toSorted());
  expect(new Set(ids).size).toBe(ids.length);
  // An outcome is not an event again, though the flows were started again. One that followed their errors may change back.
  const outcomes = recorded
    .filter(({ kind }) => kind === "deployment")
    .map(({ event }) => `${String(event["rev"])} ${(event["deployment"] as { outcome: string }).outcome}`);
  expect(outcomes.slice(-2)).toEqual([`${rev} pending`, `${rev} running`]);
  expect(outcomes.filter((outcome, index) => outcome === outcomes[index - 1])).toEqual([]);

  // After an orderly stop, the snapshot has the last deployment under its id.
  await second.stop();
  await using third = await startService({ ...config, dataDir: first.dataDir });
  await using again = watch(sse, third.url, { kinds: ["deployment"] });
  expect((await again.until(({ kind }) => kind === "snapshotEnd"))[0]).toEqual(recorded.findLast(isOutcome("running")));
});

test("a reader that is slow is told how many events it lacks", async () => {
  const config = { ...sameProcess, limits: { stallTimeoutMs: 600_000, anonymousStallTimeoutMs: 600_000 } };
  await using service = await startService({ config });
  const code = `for (let at = 0; at < 900; at++) node.log(at + " " + "x".repeat(8000));`;
  await deploy(service, { flows: endpoint("/flood", code) });
  await using fast = watch(sse, service.url, { kinds: ["log", "deployment"] });
  await fast.until(({ kind }) => kind === "snapshotEnd");
  const session = connect(service.url);
  const slow = session.request({ ":path": "/events?kinds=log&kinds=deployment", accept: "application/x-ndjson" });
  await once(slow, "response");
  // It reads nothing more than the flow-control window of its stream until all was published.
  await service.get("/flood");
  await fast.until((seen) => String(messageOf(seen)).startsWith("899 "));
  const rev = await deploy(service, { flows: [] });
  await fast.until((seen) => isOutcome("running")(seen) && seen.event["rev"] === rev);
  const lines = async (): Promise<Seen[]> => {
    const seen: Seen[] = [];
    let rest = "";
    for await (const chunk of slow.setEncoding("utf8")) {
      const parts = `${rest}${String(chunk)}`.split("\n");
      rest = parts.pop() ?? "";
      for (const part of parts) {
        const event = JSON.parse(part) as Seen["event"];
        const kind = Object.keys(event).at(-1) ?? "";
        seen.push({ id: String(event["id"]), kind, event });
        if (kind === "deployment" && event["rev"] === rev && isOutcome("running")(seen.at(-1) as Seen)) {
          return seen;
        }
      }
    }
    return seen;
  };
  const seen = await lines();
  session.destroy();
  const missed = countMissed(seen);
  expect(missed).toBeGreaterThan(0);
  const logs = (all: readonly Seen[]) => all.filter(({ kind }) => kind === "log").length;
  expect(logs(seen) + missed).toBe(logs(fast.seen) + countMissed(fast.seen));
});

/** The logs that a slow reader lacks. */
function countMissed(seen: readonly Seen[]): number {
  return seen.reduce((sum, { event }) => {
    const dropped = event["dropped"] as { reason: string; kinds?: { log?: number } } | undefined;
    return sum + (dropped?.reason === "slow_reader" ? (dropped.kinds?.log ?? 0) : 0);
  }, 0);
}

test("replicas publish what they do themselves, under their names, and each lists the events of all", async () => {
  await using database = await createDatabase();
  const config = { ...sameProcess, store: database.url, credentialSecret: "a secret that all replicas share" };
  await using first = await startService({ config });
  await using second = await startService({ config: { ...config, ...withoutRuntime } });
  await using events = watch(sse, first.url, { kinds: ["deployment"] });
  await using others = watch(sse, second.url, { kinds: ["deployment"] });
  await Promise.all([events, others].map((each) => each.until(({ kind }) => kind === "snapshotEnd")));
  const rev = await deploy(second, { flows: noisy("a") });
  const ofRev = (outcome: string) => (seen: Seen) => isOutcome(outcome)(seen) && seen.event["rev"] === rev;
  const pending = (await others.until(ofRev("pending"))).find(ofRev("pending"));
  const running = (await events.until(ofRev("running"))).find(ofRev("running"));
  const names = [running, pending].map((seen) => seen?.event["runtime"]);
  const settings = (await first.send("GET", "/settings")).json() as { replicas: { name: string; self?: boolean }[] };
  expect(new Set(names)).toEqual(new Set(settings.replicas.map(({ name }) => name)));
  expect(names[0]).toBe(settings.replicas.find(({ self }) => self)?.name);
  await eventually(async () => {
    const { logs } = (await first.send("GET", "/logs?kinds=deployment&pageSize=2")).json() as { logs: unknown[] };
    expect(logs).toEqual([running?.event, pending?.event]);
  });
  // A client that was connected to the other replica.
  await using resumed = watch(sse, first.url, { kinds: ["deployment"], after: pending?.id ?? "" });
  await resumed.until(ofRev("running"));
  await second.kill9();
  await first.kill9();
  await using third = await startService({ config });
  await using again = watch(sse, third.url, { kinds: ["deployment"], after: pending?.id ?? "" });
  const continued = await again.until(ofRev("running"));
  expect(continued.filter(({ kind }) => kind === "deployment")).toEqual([running]);
});

test("streams end with unavailable when the service stops, so that clients reconnect", async () => {
  await using service = await startService({ config: withoutRuntime });
  await using stack = new AsyncDisposableStack();
  const watches = Object.values(watchProtocols).map((open) => stack.use(watch(open, service.url)));
  await Promise.all(watches.map((each) => each.until(({ kind }) => kind === "snapshotEnd")));
  expect(await service.stop()).toBe(0);
  expect(await Promise.all(watches.map((each) => each.ended))).toEqual(protocolNames.map(() => "unavailable"));
});

test("with the journal off, events are streamed but not recorded", async () => {
  await using service = await startService({ config: { ...withoutRuntime, live: { journal: { size: 0 } } } });
  await using events = watch(sse, service.url, { kinds: ["deployment"] });
  await events.until(({ kind }) => kind === "snapshotEnd");
  const rev = await deploy(service, { flows: noisy("a") });
  await events.until((seen) => isOutcome("pending")(seen) && seen.event["rev"] === rev);
  expect((await service.send("GET", "/logs")).json()).toEqual({ logs: [] });
});
