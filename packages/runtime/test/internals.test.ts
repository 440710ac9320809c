import { spawn } from "node:child_process";
import { type EventEmitter, once } from "node:events";
import { createRequire } from "node:module";
import type { Duplex, Readable } from "node:stream";
import { text } from "node:stream/consumers";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { formatFrame } from "../src/channel.ts";
import { defaultFlowSettings } from "../src/flow-settings.ts";
import { type Initialize, messageFd } from "../src/messages.ts";
import { createFolder } from "../../../test/store/builders.ts";

/** Runs code in a child process before its program. Returns why the child has refused to start the flow runtime. */
async function refusalAfter(code: string): Promise<string | undefined> {
  await using folder = await createFolder();
  const program = fileURLToPath(new URL("../src/child/main.ts", import.meta.url));
  const flags = ["--permission", "--allow-fs-read=*", "--allow-worker", "--allow-net"];
  const child = spawn(process.execPath, [...flags, "--import", `data:text/javascript,${code}`, program], {
    stdio: ["ignore", "pipe", "pipe", "pipe", "pipe"],
    detached: true,
  });
  const initialize: Initialize = {
    kind: "initialize",
    userDir: folder.path,
    nodeCloseTimeoutMs: 0,
    logLevel: "fatal",
    settings: defaultFlowSettings,
    worker: false,
    network: { deny: [] },
  };
  const channel = child.stdio[messageFd] as Duplex;
  let sent = "";
  // It may exit before it reads the message, which resets the pipe.
  channel.on("error", () => {}).on("data", (chunk: Buffer) => (sent += chunk.toString()));
  for (const piece of formatFrame(initialize, new Uint8Array())) {
    channel.write(piece);
  }
  const [printed] = await Promise.all([text(child.stderr as Readable), once(child, "close")]);
  return /this version of Node\.js [^\n\\"]*/.exec(printed + sent)?.[0];
}

type RuntimeNode = EventEmitter & {
  readonly _inputCallback: unknown;
  readonly _inputCallbacks: unknown;
  readonly _expectedDoneCount: unknown;
};

test("the installed Node-RED keeps what receives messages where inject.ts and flow-tracer.ts read it", () => {
  const Node = createRequire(import.meta.url)("@node-red/runtime/lib/nodes/Node") as new (
    config: object,
  ) => RuntimeNode;
  const node = new Node({ id: "a", type: "test" });
  const receive = (_message: unknown, _send: unknown, _done: unknown): void => {};
  expect([node._inputCallback, node._inputCallbacks, node._expectedDoneCount]).toEqual([null, null, 0]);
  node.on("input", receive);
  expect([node._inputCallback, node._inputCallbacks, node._expectedDoneCount]).toEqual([receive, null, 1]);
  node.on("input", receive);
  expect([node._inputCallback, node._inputCallbacks, node._expectedDoneCount]).toEqual([null, [receive, receive], 2]);
});

test("the installed Node-RED writes values of files by the function that context-stores.ts replaces", async () => {
  await using folder = await createFolder();
  const create = createRequire(import.meta.url)("@node-red/runtime/lib/nodes/context/localfilesystem") as (
    config: object,
  ) => { open(): Promise<void>; close(): Promise<void>; _flushPendingWrites(): Promise<unknown> };
  const store = create({ dir: folder.path });
  await store.open();
  let calls = 0;
  store._flushPendingWrites = async () => {
    calls += 1;
  };
  await store.close();
  expect(calls).toBe(1);
});

test("the installed Node-RED gives modules the functions that node-writes.ts replaces, and reads the settings that it changes", async () => {
  const require = createRequire(import.meta.url);
  const runtime = createRequire(require.resolve("@node-red/runtime"));
  const registry = runtime("@node-red/registry/lib/util") as {
    init(runtime: object): void;
    createNodeApi(node: object): { nodes: Record<string, unknown>; settings: Record<string, unknown> };
  };
  const nodes = { addCredentials() {}, deleteCredentials() {} };
  const settings = { set() {}, delete() {} };
  registry.init({ nodes, settings, events: {}, hooks: {}, util: {}, version: () => "", library: {}, plugins: {} });
  expect(registry.createNodeApi({ id: "module/set" })).toMatchObject({ nodes, settings });
  const persistent = require("@node-red/runtime/lib/settings") as {
    init(settings: object): void;
    load(storage: object): Promise<void>;
    get(name: string): unknown;
  };
  const stored: Record<string, unknown> = { kept: 1 };
  persistent.init({});
  await persistent.load({ getSettings: async () => stored });
  stored["kept"] = 2;
  expect(persistent.get("kept")).toBe(2);
});

const prototypeOf = (handle: string): string => `Object.getPrototypeOf(${handle}._handle)`;

test.each([
  ["has no function of processes that sends a signal", "delete process._kill", "signals"],
  ["sends signals in another way", "process.kill = () => true", "signals"],
  [
    "has no function of sockets that connects",
    `import net from "node:net"; const socket = net.connect(1, "127.0.0.1"); socket.on("error", () => {});
     delete ${prototypeOf("socket")}.connect6; socket.destroy()`,
    "network access",
  ],
  [
    "has no function of lists of addresses that checks a text",
    `import net from "node:net"; const list = new net.BlockList();
     delete Object.getPrototypeOf(list[Object.getOwnPropertySymbols(list)[0]]).checkString`,
    "network access",
  ],
  [
    "has no function of resolvers that sets their servers",
    `import dns from "node:dns"; delete ${prototypeOf("new dns.Resolver()")}.setServers`,
    "network access",
  ],
])("flows do not run if Node.js %s", async (_, code, restricted) => {
  expect(await refusalAfter(code)).toBe(
    `this version of Node.js lacks an internal function that is needed to restrict the ${restricted} of flows: use Node.js 26`,
  );
});
