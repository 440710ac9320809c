import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { fromJson, type JsonObject, type MessageInitShape } from "@bufbuild/protobuf";
import { TimestampSchema } from "@bufbuild/protobuf/wkt";
import { Code, ConnectError } from "@connectrpc/connect";
import { connectNodeAdapter } from "@connectrpc/connect-node";
import {
  ConditionKind,
  DeploymentOutcome,
  EventKindSchema,
  type EventSchema,
  EventsService,
  HealthState,
  LogLevel,
  LogsService,
  ProposalState,
  RuntimeState,
} from "@flowgate/client";
import { afterAll, beforeAll, expect, test } from "vitest";
import { parseAllDocuments } from "yaml";
import { runCommand } from "../../../../test/cli/run-command.ts";
import { atTerminal, needsTerminal } from "../../../../test/cli/terminal.ts";

type EventInit = Omit<MessageInitShape<typeof EventSchema>, "$typeName">;
type KindInit = Exclude<EventInit["kind"], undefined | { case: undefined }>;

// Control characters of terminals, and a mark that reverses text.
const hostile = "\x1b[2J\x1b[8m\u009b1A\u202e";

const greet = { nodeId: "7f3a1c8e", nodeType: "function", nodeName: "greet", flowId: "9b1c", flowLabel: "Invoices" };

const time = fromJson(TimestampSchema, "2026-03-01T09:30:00.250Z");

/** An event of each kind, and how it is shown. */
const cases: readonly (readonly [kind: KindInit, source: Partial<EventInit>, shown: string])[] = [
  [
    {
      case: "deployment",
      value: { outcome: DeploymentOutcome.RUNNING, user: "ada", tokenName: "ci", message: "new tariff" },
    },
    {},
    `deployment  revision 4fGx0aQz by ada (token ci) "new tariff": running`,
  ],
  [
    { case: "deployment", value: { outcome: DeploymentOutcome.FAILED, failure: "missing node types: x" } },
    {},
    "deployment  revision 4fGx0aQz: failed: missing node types: x",
  ],
  [
    {
      case: "proposal",
      value: { id: "8c1f", state: ProposalState.OPEN, user: "bea", proposedBy: "bea", message: "tariff" },
    },
    {},
    `proposal    8c1f proposed by bea "tariff"`,
  ],
  [
    {
      case: "proposal",
      value: {
        id: "8c1f",
        state: ProposalState.REJECTED,
        user: "ada",
        tokenName: "ci",
        proposedBy: "bea",
        reason: "no",
      },
    },
    {},
    `proposal    8c1f of bea rejected by ada (token ci) "no"`,
  ],
  [
    { case: "runtimeState", value: { state: RuntimeState.RESTARTING, message: "a flow blocked it" } },
    { runtime: "replica-2" },
    "runtime     [replica-2]  restarting: a flow blocked it",
  ],
  [{ case: "health", value: { state: HealthState.HEALTHY } }, {}, "health      healthy"],
  [
    {
      case: "health",
      value: {
        state: HealthState.DEGRADED,
        conditions: [
          { kind: ConditionKind.RESTARTED, count: 3, lastTime: time, message: `it ran out of ${hostile} memory` },
          { kind: ConditionKind.NODES_FAILING, count: 1, lastTime: time, message: "no tariff", ...greet },
        ],
      },
    },
    {},
    String.raw`health      degraded
    restarted, 3 times, last 2026-03-01 09:30:00: it ran out of \x1b[2J\x1b[8m\x9b1A\u202e memory
    nodes failing function greet in Invoices, last 2026-03-01 09:30:00: no tariff`,
  ],
  [
    { case: "debug", value: { format: "bigint", value: "123", property: "payload" } },
    { ...greet, nodeType: "debug" },
    "debug       greet (debug) · Invoices  msg.payload (bigint): 123n",
  ],
  [
    {
      case: "debug",
      value: {
        format: "Object",
        value: '{"big":{"__enc__":true,"type":"bigint","data":"5"},"none":{"__enc__":true,"type":"undefined"}}',
      },
    },
    { ...greet, nodeType: "debug" },
    'debug       greet (debug) · Invoices  msg (Object): {"big":5n,"none":undefined}',
  ],
  [
    { case: "editorMessage", value: { topic: "say/preview", data: '{"text":"hello"}' } },
    {},
    'editor      say/preview: {"text":"hello"}',
  ],
  [
    { case: "nodeStatus", value: { fill: "red", shape: "ring", text: "disconnected" } },
    { ...greet, nodeType: "mqtt in", nodeName: "" },
    "status      mqtt in 7f3a1c8e · Invoices  [red ring] disconnected",
  ],
  [
    { case: "nodeStatus", value: { fill: "constructor", shape: "__proto__", text: "x" } },
    greet,
    "status      greet (function) · Invoices  [constructor __proto__] x",
  ],
  [{ case: "nodeStatus", value: {} }, { ...greet, flowLabel: "" }, "status      greet (function) · 9b1c  cleared"],
  [
    {
      case: "nodeError",
      value: {
        level: LogLevel.ERROR,
        message: "TypeError: no name",
        stack: "    at first:3:7\n    at second:9:1",
        line: 3,
        column: 7,
        count: 12,
        caught: true,
        truncated: true,
      },
    },
    greet,
    "error       greet (function) · Invoices  TypeError: no name (line 3) (caught) (shortened) ×12\n    at first:3:7\n    at second:9:1",
  ],
  [
    { case: "nodeError", value: { level: LogLevel.WARN, message: "one\n\ttwo\n", count: 1 } },
    greet,
    "warn        greet (function) · Invoices  one\n      two",
  ],
  [
    { case: "debug", value: { topic: "t", property: "payload", format: "string[5]", value: "hello", truncated: true } },
    { ...greet, nodeType: "debug" },
    "debug       greet (debug) · Invoices  t msg.payload (string[5]): hello (shortened)",
  ],
  [
    { case: "debug", value: { format: "Object", value: '{"payload":1}' } },
    { ...greet, nodeType: "debug", nodeName: "" },
    'debug       debug 7f3a1c8e · Invoices  msg (Object): {"payload":1}',
  ],
  [
    { case: "log", value: { level: LogLevel.INFO, message: "Started flows", count: 2 } },
    {},
    "info        Started flows ×2",
  ],
  [
    {
      case: "module",
      value: { name: "cron-plus", version: "2.1.0", action: "install", state: "failed", message: "no such version" },
    },
    {},
    "module      install cron-plus@2.1.0 failed: no such version",
  ],
  [{ case: "token", value: { action: "revoked", subject: "ci", user: "ada" } }, {}, "token       revoked ci by ada"],
  [{ case: "users", value: { action: "rejected", detail: "no password" } }, {}, "users       rejected: no password"],
  [{ case: "snapshotEnd", value: {} }, {}, ""],
  [
    { case: "dropped", value: { count: 120, kinds: { debug: 100, log: 20 }, reason: "flood" } },
    {},
    "dropped     120 events are missing here (100 debug, 20 log): there were too many",
  ],
  [
    { case: "dropped", value: { reason: "expired" } },
    {},
    "dropped     some events are missing here: they are not known any more",
  ],
  [{ case: "bookmark", value: {} }, {}, ""],
  [
    { case: "log", value: { level: LogLevel.FATAL, message: `a${hostile}b` } },
    { ...greet, nodeName: `n${hostile}` },
    String.raw`fatal       n\x1b[2J\x1b[8m\x9b1A\u202e (function) · Invoices  a\x1b[2J\x1b[8m\x9b1A\u202eb`,
  ],
];

const events = cases.map(([kind, source], index): EventInit => ({
  id: `id-${index}`,
  time,
  rev: "4fGx0aQzW5",
  ...source,
  kind,
}));

/** The `after` of each request for a stream, and its deadline. */
const positions: string[] = [];
const deadlines: (string | null)[] = [];

const server = createServer(
  connectNodeAdapter({
    routes(router) {
      router.rpc(EventsService.method.watchEvents, async function* watch({ after }, { requestHeader }) {
        positions.push(after);
        deadlines.push(requestHeader.get("connect-timeout-ms"));
        yield* events;
        throw new ConnectError("the test has ended", Code.Unauthenticated);
      });
      router.rpc(LogsService.method.listLogs, ({ pageSize, pageToken, level }) => {
        if (level === LogLevel.TRACE) {
          return { logs: [], nextPageToken: "" };
        }
        const start = Number(pageToken);
        const logs = events.toReversed().slice(start, start + Math.min(pageSize, 5));
        const end = start + logs.length;
        return { logs, nextPageToken: end === events.length ? "" : String(end) };
      });
    },
  }),
);
let env: Record<string, string>;
beforeAll(async () => {
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  env = { FLOWGATE_SERVER: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, TZ: "UTC" };
});
afterAll(() => void server.close());

const lines = cases.flatMap(([, , shown]) => (shown === "" ? [] : [`2026-03-01 09:30:00.250  ${shown}`]));

test("every kind of event has a case", () => {
  const shown = new Set(cases.map(([kind]) => kind.case.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)));
  const kinds = EventKindSchema.values.slice(1).map(({ localName }) => localName.toLowerCase());
  expect(kinds.filter((kind) => !shown.has(kind))).toEqual([]);
});

test("--kinds takes every kind", async () => {
  const kinds = EventKindSchema.values.slice(1).map(({ localName }) => localName.toLowerCase());
  const { stdout } = await runCommand(["events", "--kinds", kinds.join(",")], { env });
  expect(stdout).toContain("Started flows");
});

test("events are lines of text", async () => {
  const { code, stdout, stderr } = await runCommand(["events"], { env });
  expect(stdout.split("\n")).toEqual([...lines.join("\n").split("\n"), ""]);
  expect({ code, stderr }).toMatchObject({ code: 1, stderr: expect.stringContaining("requires a login") as string });
});

test("events are JSON objects of one line each, as the REST API has them", async () => {
  const { stdout } = await runCommand(["events", "-o", "json"], { env });
  const parsed = stdout
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line) as JsonObject);
  const isShown = ({ kind }: EventInit): boolean => kind?.case !== "bookmark";
  expect(parsed.map(({ id }) => id)).toEqual(events.filter(isShown).map(({ id }) => id));
  expect(parsed[13]).toEqual({
    id: "id-13",
    time: "2026-03-01T09:30:00.250Z",
    rev: "4fGx0aQzW5",
    ...greet,
    nodeError: {
      level: "error",
      message: "TypeError: no name",
      stack: "    at first:3:7\n    at second:9:1",
      line: 3,
      column: 7,
      count: 12,
      caught: true,
      truncated: true,
    },
  });
  expect(parsed.at(-1)).toMatchObject({ log: { message: `a${hostile}b` } });
  expect(stdout).not.toMatch(/[^\P{Cc}\n]|\u202e/u);
  const yaml = await runCommand(["events", "-o", "yaml"], { env });
  expect(parseAllDocuments(yaml.stdout).map((document) => document.toJSON() as unknown)).toEqual(parsed);
});

test("logs are the same lines, the last ones with the oldest first", async () => {
  expect(await runCommand(["logs", "-n", "7"], { env })).toEqual({
    code: 0,
    stdout: `${lines.slice(-5).join("\n")}\n`,
    stderr: "",
  });
  expect((await runCommand(["logs", "-n", "7", "--since", "1h"], { env })).stderr).toBe(
    "flowgate: only the last 7 are shown: use a larger --limit.\n",
  );
  expect(await runCommand(["logs"], { env })).toEqual({ code: 0, stdout: `${lines.join("\n")}\n`, stderr: "" });
  const json = await runCommand(["logs", "-n", "2", "-o", "json"], { env });
  expect(
    json.stdout
      .trimEnd()
      .split("\n")
      .map((line) => (JSON.parse(line) as JsonObject)["id"]),
  ).toEqual(events.slice(-2).map(({ id }) => id));
});

test.each([
  ["what was recorded, without the entries of the list and those before it", ["-n", "3"], []],
  // The current state is left out.
  ["what was recorded, if the list is empty", ["--level", "trace"], ["id-21", "id-22", "id-23", "id-25"]],
])("logs -f continues after %s", async (_, flags, followed) => {
  positions.length = 0;
  const { stdout } = await runCommand(["logs", "-f", "-o", "json", ...flags], { env });
  expect(positions).toEqual(["id-25"]);
  const ids = stdout
    .trimEnd()
    .split("\n")
    .map((line) => (JSON.parse(line) as JsonObject)["id"]);
  expect(ids.slice(flags[0] === "-n" ? 3 : 0)).toEqual(followed);
});

test("a stream has no deadline, whatever --timeout is", async () => {
  deadlines.length = 0;
  await runCommand(["events", "--timeout", "5"], { env });
  expect(deadlines).toEqual([null]);
});

test("levels have colours at a terminal, unless NO_COLOR is set", needsTerminal, async () => {
  const { shown } = await atTerminal(["events"], [], env);
  expect(shown).toContain("\x1b[31merror\x1b[39m       \x1b[1mgreet (function) · Invoices\x1b[22m  TypeError");
  expect(shown).toContain("\x1b[33mwarn\x1b[39m");
  const plain = await atTerminal(["events"], [], { ...env, NO_COLOR: "1" });
  expect(plain.shown).toContain("error       greet (function) · Invoices  TypeError");
  expect(plain.shown).not.toContain("\x1b[3");
});
