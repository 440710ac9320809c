import { afterAll, describe, expect, test } from "vitest";
import { block } from "../../packages/runtime/test/flow-builders.ts";
import { deploy } from "./deploy.ts";
import { endpoint, functionNode, type Node, tab } from "./flow-builders.ts";
import { eventually, type Service, startService } from "./service.ts";

type Json = { readonly [key: string]: unknown };

const restart = { backoffMs: 50, maxBackoffMs: 100 };
const safeMode = { exits: 3 };

const stack = new AsyncDisposableStack();
afterAll(() => stack.disposeAsync());
const services = new Map<string, Service>();

/** One for each configuration: whatever the flows before have done ends with them. */
async function serviceWith(config: object): Promise<Service> {
  const key = JSON.stringify(config);
  const service =
    services.get(key) ?? stack.use(await startService({ config: { runtime: { ...config, restart, safeMode } } }));
  services.set(key, service);
  return service;
}

async function newest(service: Service): Promise<Json> {
  const { revisions } = (await service.send("GET", "/revisions?pageSize=1")).json() as { revisions: Json[] };
  return revisions[0] ?? {};
}

async function flowsOf(service: Service): Promise<readonly Node[]> {
  return (await service.send("GET", "/flows")).json() as Node[];
}

const blocking = `setTimeout(() => { ${block} }, 50);`;
const crash = `setTimeout(() => void Promise.reject(new Error("late")), 50);`;

const flowsWith = (initialize: string): Node[] => [
  tab("B"),
  functionNode("bad", { z: "B", name: "parser", initialize }),
  functionNode("neighbor", { z: "B" }),
  ...endpoint("/alive", "msg.payload = 'yes'"),
];

const accusation = {
  kind: "crashed",
  cause: "x",
  fault: { node: { nodeId: "neighbor", flowId: "B" }, line: 1, isCertain: true },
};

/** Writes to the channel of the runtime that the neighbor has ended the process, and ends it. */
const accuse = `const host = util.inspect.constructor("return process")();
  setTimeout(() => {
    host.getBuiltinModule("fs").writeSync(3, ${JSON.stringify(`${JSON.stringify(accusation)}\n`)});
    host.exit(1);
  }, 50);`;

describe("a node that ends the runtime process twice", () => {
  test.for<[scope: string, config: object, disabled: object, name: string]>([
    ["node", { quarantine: "node" }, { id: "bad", d: true }, 'function "parser"'],
    ["tab", { quarantine: "tab" }, { id: "B", disabled: true }, 'tab "tab B"'],
  ])("is disabled with its %s, so that the others run", async ([scope, config, disabled, name]) => {
    const service = await serviceWith(config);
    const before = await deploy(service, { flows: flowsWith(blocking) });
    await eventually(async () => {
      expect(await newest(service)).toMatchObject({
        parent: before,
        cause: "flow",
        outcome: "running",
        message: `${name} was disabled by the service (runtime.quarantine: ${scope}), since it has blocked the flows 2 times: correct and enable it, or undo this deployment with flowgate undo`,
      });
    });
    const changed = (await flowsOf(service)).filter((node) => node["d"] === true || node["disabled"] === true);
    expect(changed).toMatchObject([disabled]);
    expect(await service.get("/alive")).toBe("yes");
    const { entries } = (await service.send("GET", "/audit?kind=deployment&pageSize=1")).json() as { entries: Json[] };
    expect(entries[0]).toMatchObject({ kind: "deployment", detail: "flow, nodes" });
  });

  test.for<[what: string, initialize: string, config: object]>([
    ["unless the configuration says so", blocking, {}],
    ["if the flows crash, which only they can describe", crash, { quarantine: "node" }],
    ["if flows blame it for a crash", accuse, { quarantine: "node" }],
  ])("is not disabled %s", async ([, initialize, config]) => {
    const service = await serviceWith(config);
    const rev = await deploy(service, { flows: flowsWith(initialize) });
    await eventually(async () => {
      const { runtime } = (await service.send("GET", "/settings")).json() as { runtime: Json };
      expect(runtime["state"]).toBe("safe");
    });
    expect(await newest(service)).toMatchObject({ rev });
  });
});
