import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import type { Readable } from "node:stream";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, test } from "vitest";
import { createFolder } from "../store/builders.ts";
import { deploy } from "./deploy.ts";
import { endpoint, functionNode, type Node } from "./flow-builders.ts";
import { json } from "./rest.ts";
import { toolsUrl } from "./editor.ts";
import { eventually, type Service, startService } from "./service.ts";
import { type Watch, watch, watchProtocols } from "./watch-events.ts";

/** What both show of a node, in order. */
type Shown = { readonly statuses: object[]; readonly debug: object[]; readonly errors: object[] };

type NodeRed = AsyncDisposable & {
  readonly shown: ReadonlyMap<string, Shown>;
  get(path: string): Promise<unknown>;
  deploy(flows: readonly Node[]): Promise<void>;
};

function shownOf(all: Map<string, Shown>, id: string): Shown {
  const shown = all.get(id) ?? { statuses: [], debug: [], errors: [] };
  all.set(id, shown);
  return shown;
}

type DebugData = {
  readonly id?: string;
  readonly level?: number;
  readonly msg: string;
  readonly format?: string;
  readonly topic?: string;
  readonly property?: string;
};

/** Starts Node-RED, and connects to it as its editor does. */
async function startNodeRed(): Promise<NodeRed> {
  await using stack = new AsyncDisposableStack();
  const folder = stack.use(await createFolder());
  const program = fileURLToPath(new URL("../fixtures/e2e/node-red-editor.ts", import.meta.url));
  const child: ChildProcess = spawn(process.execPath, [program, folder.path], { stdio: ["ignore", "pipe", "inherit"] });
  stack.defer(async () => {
    child.kill("SIGKILL");
    await once(child, "exit");
  });
  const [line] = (await once(createInterface(child.stdout as Readable), "line")) as [string];
  const { adminPort, nodesPort } = JSON.parse(line) as { adminPort: number; nodesPort: number };
  const shown = await connectEditor(`ws://127.0.0.1:${adminPort}/comms`, stack);
  const owned = stack.move();
  return {
    shown,
    get: async (path) => (await fetch(`http://127.0.0.1:${nodesPort}${path}`)).text(),
    async deploy(flows) {
      const reply = await fetch(`http://127.0.0.1:${adminPort}/flows`, {
        method: "POST",
        headers: json,
        body: JSON.stringify(flows),
      });
      expect(reply.status).toBe(204);
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

/** Connects as the editor does, and returns what it shows. */
async function connectEditor(url: string, stack: AsyncDisposableStack): Promise<ReadonlyMap<string, Shown>> {
  const shown = new Map<string, Shown>();
  const socket = new WebSocket(url);
  stack.defer(() => socket.close());
  socket.addEventListener("message", ({ data }) => {
    for (const { topic, data: value } of JSON.parse(String(data)) as { topic: string; data: DebugData }[]) {
      record(shown, topic, value);
    }
  });
  await once(socket, "open");
  for (const topic of ["status/#", "debug", "notification/#"]) {
    socket.send(JSON.stringify({ subscribe: topic }));
  }
  return shown;
}

function record(all: Map<string, Shown>, topic: string, data: DebugData): void {
  if (topic.startsWith("status/")) {
    shownOf(all, topic.slice("status/".length)).statuses.push(data);
  } else if (topic === "debug" && data.id !== undefined) {
    // Other messages are those of the runtime itself.
    const { id, level, msg, format, topic: messageTopic, property } = data;
    if (level === undefined) {
      shownOf(all, id).debug.push(withoutEmpty({ topic: messageTopic, property, format, value: msg }));
    } else {
      shownOf(all, id).errors.push({ level: level === 30 ? "warn" : "error", message: readError(data) });
    }
  }
}

function readError({ msg, format }: DebugData): string {
  if (format !== "error") {
    return msg;
  }
  const { data } = JSON.parse(msg) as { data: { name: string; message: string } };
  return `${data.name}: ${data.message}`;
}

function withoutEmpty(fields: object): object {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined && value !== ""));
}

/** The same of the events of the service, by the ids of the runtime. Errors that a catch node has received are not shown by Node-RED. */
function readEvents(events: Watch): Map<string, Shown> {
  const all = new Map<string, Shown>();
  for (const { kind, event } of events.seen) {
    const { nodeId, subflowPath = [] } = event as { nodeId: string; subflowPath?: string[] };
    const value = event[kind] as Record<string, unknown>;
    const shown = (): Shown => shownOf(all, [...subflowPath, nodeId].join("-"));
    if (kind === "nodeStatus") {
      shown().statuses.push(value);
    } else if (kind === "debug") {
      const { truncated: _, ...others } = value;
      shown().debug.push(others);
    } else if (kind === "nodeError" && value["caught"] !== true) {
      const { level, message, count } = value as { level: string; message: string; count: number };
      shown().errors.push(...Array.from({ length: count }, () => ({ level, message })));
    }
  }
  return all;
}

/** Node-RED sends a BigInt as an object, and events have its digits. */
function withBigIntAsText(shown: object): object {
  const { value } = shown as { readonly value: unknown };
  return typeof value === "string" ? shown : { ...shown, value: (value as { readonly data: string }).data };
}

const z = "tab of /go";
const place = { z, x: 1, y: 1 };

const code = `const at = Number(msg.req.query.at);
node.status({ fill: at % 2 ? "red" : "green", shape: "ring", text: "request " + at });
node.warn("warning " + at);
node.error("error " + at);
node.error(new TypeError("caught " + at), msg);
const values = ["text", 1.5, true, null, { a: [1, { b: "c" }] }, Array.from({ length: 1500 }, (_, i) => i), "x".repeat(3000),
  123n, { big: 5n, none: undefined, nan: NaN, at: new Date(0), is: /r/, run() {}, bytes: Buffer.from("b"), floats: new Float32Array(2) },
  undefined, NaN, -Infinity, new Date(0), Object.assign(new RangeError("far", { cause: "a wire" }), { code: 1, stack: "at x" }), new Float32Array(1200),
  Buffer.from("bytes"), new Set([1]), new Map([["k", 1]]), /r/i, "\\u0001 \\u2028 \\ud83d\\ude00"];
for (const payload of values) node.send([null, { payload, topic: "values" }]);`;

const debug = { type: "debug", active: true, tosidebar: true, console: false, targetType: "msg", wires: [] };

const flows: Node[] = [
  ...endpoint("/go", code),
  { ...place, ...debug, id: "values", name: "values", complete: "payload" },
  {
    ...place,
    ...debug,
    id: "counted",
    name: "",
    complete: "payload",
    tostatus: true,
    statusType: "counter",
    tosidebar: false,
  },
  { ...place, id: "catch", type: "catch", name: "", scope: ["/go function"], uncaught: false, wires: [["change"]] },
  {
    ...place,
    id: "change",
    type: "change",
    name: "",
    rules: [{ t: "set", p: "payload", pt: "msg", to: "error.message", tot: "msg" }],
    wires: [["template"]],
  },
  {
    ...place,
    id: "template",
    type: "template",
    name: "",
    field: "payload",
    fieldType: "msg",
    format: "handlebars",
    syntax: "mustache",
    template: "It is {{payload}}.",
    output: "str",
    wires: [["switch"]],
  },
  {
    ...place,
    id: "switch",
    type: "switch",
    name: "",
    property: "payload",
    propertyType: "msg",
    rules: [{ t: "cont", v: "caught", vt: "str" }],
    checkall: "true",
    repair: false,
    outputs: 1,
    wires: [["split", "instance"]],
  },
  {
    ...place,
    id: "split",
    type: "split",
    name: "",
    splt: " ",
    spltType: "str",
    arraySplt: 1,
    arraySpltType: "len",
    stream: false,
    addname: "",
    wires: [["join"]],
  },
  {
    ...place,
    id: "join",
    type: "join",
    name: "",
    mode: "auto",
    build: "object",
    property: "payload",
    propertyType: "msg",
    key: "topic",
    joiner: "-",
    joinerType: "str",
    accumulate: false,
    timeout: "",
    count: "",
    wires: [["joined"]],
  },
  { ...place, ...debug, id: "joined", name: "joined", complete: "payload" },
  { ...place, id: "on status", type: "status", name: "", scope: ["/go function"], wires: [["shown status"]] },
  { ...place, ...debug, id: "shown status", name: "", complete: "status.text" },
  {
    id: "subflow",
    type: "subflow",
    name: "Inner",
    in: [{ x: 1, y: 1, wires: [{ id: "inner" }] }],
    out: [],
    status: { x: 1, y: 1, wires: [{ id: "inner", port: 0 }] },
  },
  functionNode("inner", {
    z: "subflow",
    name: "Inner",
    func: `node.status({ text: "inner" }); node.error("from inside"); return { payload: "of the subflow" };`,
  }),
  { ...place, id: "instance", type: "subflow:subflow", name: "", wires: [] },
].map((node) =>
  node.id === "/go function" ? { ...node, outputs: 2, wires: [["/go out"], ["values", "counted"]] } : node,
);

const gRPC = watchProtocols["gRPC"] as (typeof watchProtocols)[string];

let nodeRed: NodeRed;
let service: Service;
const connections = new AsyncDisposableStack();
beforeAll(async () => {
  [nodeRed, service] = await Promise.all([startNodeRed(), startService({ config: { nodeRed: { port: 0 } } })]);
});
afterAll(async () => {
  await connections.disposeAsync();
  await Promise.all([nodeRed?.[Symbol.asyncDispose](), service?.[Symbol.asyncDispose]()]);
});

test("events have the same values as the websocket of Node-RED's editor", async () => {
  expect(new Set(flows.map(({ type }) => type)).size).toBeGreaterThanOrEqual(12 + 2);
  await using events = watch(gRPC, service.url, { kinds: ["node_status", "debug", "node_error"] });
  await events.until(({ kind }) => kind === "snapshotEnd");
  const ownEditor = await connectEditor(`${toolsUrl(service).replace("http", "ws")}/comms`, connections);
  await Promise.all([nodeRed.deploy(flows), deploy(service, { flows })]);
  for (const at of [1, 2, 3]) {
    await Promise.all([nodeRed.get(`/go?at=${at}`), service.get(`/go?at=${at}`)]);
    const isShown = (shown: Shown | undefined): boolean => JSON.stringify(shown?.debug).includes(`caught ${at}`);
    await eventually(async () => {
      expect(isShown(nodeRed.shown.get("joined"))).toBe(true);
      expect(isShown(readEvents(events).get("joined"))).toBe(true);
      expect(readEvents(events).get("/go function")?.statuses).toHaveLength(at);
    });
  }
  await eventually(async () => {
    const [expected, received] = [nodeRed.shown, readEvents(events)];
    expect([...received.keys()].toSorted()).toEqual([...expected.keys()].toSorted());
    for (const [id, shown] of expected) {
      expect({ id, ...received.get(id), statuses: received.get(id)?.statuses.at(-1) }).toEqual({
        id,
        ...shown,
        debug: shown.debug.map(withBigIntAsText),
        statuses: shown.statuses.at(-1),
      });
    }
    expect(received.get("/go function")?.statuses).toEqual(expected.get("/go function")?.statuses);
  });
  const all = readEvents(events);
  expect(all.get("values")?.debug).toHaveLength(3 * 20);
  await expect
    .poll(() => ownEditor.get("values")?.debug, { timeout: 120_000 })
    .toEqual(nodeRed.shown.get("values")?.debug);
  expect(all.get("instance-inner")?.statuses.at(-1)).toEqual({ text: "inner" });
  expect(all.get("instance-inner")?.errors).toHaveLength(3);
});
