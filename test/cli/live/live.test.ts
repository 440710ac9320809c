import { spawn } from "node:child_process";
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import { connectNodeAdapter } from "@connectrpc/connect-node";
import { EventsService, LogLevel, LogsService } from "@flowgate/client";
import { afterAll, beforeAll, expect, test } from "vitest";
import { deploy } from "../../e2e/deploy.ts";
import { endpoint, functionNode, tab } from "../../e2e/flow-builders.ts";
import { bearer, json } from "../../e2e/rest.ts";
import { eventually, type Service, startService, withoutRuntime } from "../../e2e/service.ts";
import { login, user } from "../../e2e/users.ts";
import { cliEnvironment, exitCode, mainPath } from "../run-cli.ts";
import { runCommand } from "../run-command.ts";
import { startCli } from "../running-cli.ts";

let service: Service;
let admin: Record<string, string>;
let env: Record<string, string>;

const flows = [
  ...endpoint("/fail", `node.error("it failed: " + msg.req.query.at)`),
  { ...tab("second"), label: "Second" },
  functionNode("timer", { z: "second", name: "Timer", initialize: `node.warn("it is late")` }),
  { ...tab("twin-1"), label: "Twin" },
  { ...tab("twin-2"), label: "Twin" },
];

beforeAll(async () => {
  const users = [user("admin", "*"), user("reader", "read")];
  service = await startService({ config: { adminAuth: { users } } });
  const token = await login(service, { username: "admin" });
  admin = bearer(token);
  env = { FLOWGATE_SERVER: service.url, FLOWGATE_TOKEN: token };
  await deploy(service, { flows }, "full", admin);
  await using logs = startCli(["logs", "-f"], env);
  await logs.until(/it is late/);
});
afterAll(() => service?.[Symbol.asyncDispose]());

async function lines(...args: string[]): Promise<string[]> {
  const { code, stdout, stderr } = await runCommand(args, { env });
  expect({ args, code, stderr }).toEqual({ args, code: 0, stderr: "" });
  return stdout.trimEnd().split("\n");
}

const fail = (at: string) => service.get(`/fail?at=${at}`, admin);

test("events shows the current state and what comes, until Ctrl-C", async () => {
  await using events = startCli(["events", "--kinds", "deployment,runtime_state,node_error"], env);
  const state = await events.until(/running\n[^]*running\n/);
  expect(state).toMatch(/^\S+ \S+ {2}deployment {2}revision \S{8} by admin: running$/m);
  expect(state).toMatch(/^\S+ \S+ {2}runtime {5}running$/m);
  await fail("events");
  await events.until(/error {7}function \/fail function · .*tab of \/fail {2}it failed: events/);
  expect(await events.end("SIGINT")).toMatchObject({ code: 130, stderr: "" });
});

test("logs lists what was recorded, selected by level, tab, node and time", async () => {
  await fail("logs");
  // The health of the flows and the outcome of the deployment can come after it.
  const failed = expect.stringMatching(/ {2}it failed: logs/);
  await eventually(async () => expect(await lines("logs", "-n", "3")).toContainEqual(failed));
  expect(await lines("logs", "--level", "error", "--since", "1h")).toContainEqual(
    expect.stringMatching("failed: logs"),
  );
  const byTab = await lines("logs", "--tab", "Second");
  expect(byTab.every((line) => line.includes("  it is late"))).toBe(true);
  expect(await lines("logs", "--tab", "second")).toEqual(byTab);
  expect(await lines("logs", "--node", "Timer")).toEqual(byTab);
  expect(await runCommand(["logs", "--since", "1h", "--until", "59m"], { env })).toEqual({
    code: 0,
    stdout: "",
    stderr: "flowgate: Nothing was recorded that matches.\n",
  });
});

test("a tab or node that does not exist, and a label of several tabs, are told", async () => {
  const gone = await runCommand(["logs", "--tab", "Third", "--node", "Nobody"], { env });
  expect(gone.stderr).toBe(
    [
      'flowgate: No tab has the label or id "Third" now. flowgate get flows lists the tabs.\n',
      'flowgate: No node has the id, name or type "Nobody" now. flowgate get flows lists the tabs.\n',
      "flowgate: Nothing was recorded that matches.\n",
    ].join(""),
  );
  expect(await runCommand(["events", "--tab", "Twin"], { env })).toEqual({
    code: 1,
    stdout: "",
    stderr: `flowgate: 2 tabs have the label "Twin". Name one by its id:\nflowgate:   twin-1\nflowgate:   twin-2\n`,
  });
});

test("logs -f continues after the list, without a gap and without the same entry twice", async () => {
  await fail("before");
  await using logs = startCli(["logs", "-f", "-n", "1", "-o", "json", "--kinds", "node_error"], env);
  await logs.until(/before/);
  await fail("after");
  await fail("last");
  const seen = (await logs.until(/failed: last/))
    .trimEnd()
    .split("\n")
    .map((line) => (JSON.parse(line) as { nodeError: { message: string } }).nodeError.message);
  expect(seen).toEqual(["it failed: before", "it failed: after", "it failed: last"]);
  expect(await logs.end("SIGTERM")).toMatchObject({ code: 143, stderr: "" });
});

test("a stream ends with its token, and says so", async () => {
  const created = await service.send("POST", "/tokens", {
    headers: { ...admin, ...json },
    body: JSON.stringify({ name: "short", scope: "events.read" }),
  });
  const { accessToken, token } = created.json() as { accessToken: string; token: { id: string } };
  await using events = startCli(["events"], { ...env, FLOWGATE_TOKEN: accessToken });
  await events.until(/running/);
  await service.send("DELETE", `/tokens/${token.id}`, { headers: admin });
  const { code, stderr } = await events.ended;
  expect({ code, stderr }).toMatchObject({ code: 1 });
  expect(stderr).toMatch(
    /^flowgate: \S+ rejects the token in FLOWGATE_TOKEN\. .* Set a valid one, or unset it and log in with: flowgate login --server \S+\n$/,
  );
});

test("debug messages and logs require permissions of their own", async () => {
  const reader = { ...env, FLOWGATE_TOKEN: await login(service, { username: "reader", scope: "read" }) };
  for (const [command, permission] of [
    ["debug", "debug.read"],
    ["logs", "logs.read"],
  ] as const) {
    const { code, stderr } = await runCommand([command], { env: reader });
    expect({ code, stderr }).toMatchObject({ code: 1, stderr: expect.stringContaining(permission) as string });
  }
});

test("a reader that closes its pipe ends the stream quietly", async () => {
  const child = spawn(process.execPath, [mainPath, "events", "--kinds", "node_error,deployment"], {
    env: cliEnvironment(env),
    stdio: ["ignore", "pipe", "pipe"],
  });
  await once(child.stdout, "data");
  child.stdout.destroy();
  const [stderr, code] = await Promise.all([text(child.stderr), exitCode(child), fail("unread")]);
  expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
});

test("events continues where it was when the service was killed and starts again", async () => {
  await using first = await startService({ config: withoutRuntime });
  const server = { FLOWGATE_SERVER: first.url };
  await using events = startCli(["events", "--kinds", "deployment", "-o", "json"], server);
  await events.until(/snapshotEnd/);
  const before = await deploy(first, { flows: [tab("a")] });
  await events.until(new RegExp(before));
  // What was listed is recorded.
  await first.send("GET", "/logs");
  await first.kill9();
  await events.until(/was lost/, "stderr");
  await using second = await startService({ config: withoutRuntime, dataDir: first.dataDir, port: first.port });
  const after = await deploy(second, { flows: [tab("b")] });
  await events.until(new RegExp(after));
  const { code, stdout, stderr } = await events.end("SIGINT");
  expect({ code, stderr }).toEqual({
    code: 130,
    stderr: `flowgate: The connection to ${first.url} was lost. Connecting again.\n`,
  });
  const seen = stdout
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line) as { id: string; rev?: string });
  const live = seen.slice(seen.findIndex((event) => "snapshotEnd" in event) + 1);
  const ids = live.map(({ id }) => id);
  expect(ids).toEqual([...new Set(ids)].toSorted());
  expect({ live }).toEqual({ live: live.filter(({ rev }) => rev === before || rev === after) });
});

test("logs -f prints what a replica records late, once and after what was published later", async () => {
  const log = (id: string, seconds: number) => ({
    id,
    time: { seconds: BigInt(seconds) },
    kind: { case: "log", value: { level: LogLevel.INFO, message: `message ${id}` } } as const,
  });
  const recorded = [log("a1", 1_000), log("a2", 1_100), log("a4", 1_104)];
  const routes = connectNodeAdapter({
    routes: (router) => {
      router.rpc(LogsService.method.listLogs, ({ pageSize, until }) => {
        const logs = recorded.filter(({ time }) => until === undefined || time.seconds < until.seconds).toReversed();
        return { logs: logs.slice(0, pageSize), nextPageToken: logs.length > pageSize ? "more" : "" };
      });
      router.rpc(EventsService.method.watchEvents, async function* watch({ after }, { signal }) {
        yield { id: after, kind: { case: "bookmark", value: {} } } as const;
        yield* [...recorded, log("a3", 1_102), log("a5", 1_105)].filter(({ id }) => id > after);
        await once(signal, "abort");
      });
    },
  });
  const server = createServer(routes).listen(0, "127.0.0.1");
  using _ = { [Symbol.dispose]: () => void server.close() };
  await once(server, "listening");
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  await using logs = startCli(["logs", "-f", "-n", "2"], { FLOWGATE_SERVER: url });
  const seen = await logs.until(/message a5/);
  expect(seen.match(/a\d$/gm)).toEqual(["a2", "a4", "a3", "a5"]);
});
