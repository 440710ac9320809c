import { afterAll, beforeAll, expect, test } from "vitest";
import { deploy } from "../e2e/deploy.ts";
import { endpoint, functionNode, type Node, tab } from "../e2e/flow-builders.ts";
import { type Service, startService } from "../e2e/service.ts";
import { type Outcome } from "./run-cli.ts";
import { runCommand } from "./run-command.ts";

let service: Service;
let env: Record<string, string>;

const place = { x: 1, y: 1 };

function inject(id: string, name: string): Node {
  const props = [
    { p: "payload", v: "of the node", vt: "str" },
    { p: "topic", v: "", vt: "str" },
  ];
  return { id, type: "inject", name, z: "T", ...place, props, repeat: "", once: false, wires: [["keep"]] };
}

/** GET /last responds with the last message that the node `keep` received. */
const flows: Node[] = [
  ...endpoint("/last", `msg.payload = global.get("last")`),
  { ...tab("T"), label: "Invoices" },
  inject("i-1", "each morning"),
  inject("i-2", "twice"),
  inject("i-3", "twice"),
  functionNode("keep", { z: "T", name: "each morning", func: `global.set("last", { ...msg, _msgid: undefined });` }),
];

beforeAll(async () => {
  service = await startService({});
  env = { FLOWGATE_SERVER: service.url };
  await deploy(service, { flows });
});
afterAll(() => service?.[Symbol.asyncDispose]());

const flowgate = (...args: string[]): Promise<Outcome> => runCommand(args, { env });

const last = async (): Promise<unknown> => JSON.parse(await service.get("/last"));

test("makes the inject node with a name send its message, although another node has the name", async () => {
  expect(await flowgate("inject", "each morning")).toEqual({
    code: 0,
    stdout: "Injected each morning (inject) · Invoices.\n",
    stderr: "",
  });
  expect(await last()).toEqual({ payload: "of the node", topic: "" });
});

test.each<[string[], object]>([
  [["i-2", "--payload", "42"], { payload: 42, topic: "" }],
  [["i-2", "--payload", "a text", "--topic", "7"], { payload: "a text", topic: "7" }],
  [["keep", "--message", `{"payload": {"name": "Ada"}, "x": null}`], { payload: { name: "Ada" }, x: null }],
])("inject %j sends a message", async (args, message) => {
  expect(await flowgate("inject", ...args)).toMatchObject({ code: 0, stderr: "" });
  expect(await last()).toEqual(message);
});

test("lists the nodes where several have the name, and explains where none has", async () => {
  expect(await flowgate("inject", "twice")).toEqual({
    code: 1,
    stdout: "",
    stderr:
      'flowgate: 2 nodes have the name "twice". Name one by its id:\nflowgate:   i-2  twice (inject) · Invoices\nflowgate:   i-3  twice (inject) · Invoices\n',
  });
  expect(await flowgate("inject", "never")).toEqual({
    code: 1,
    stdout: "",
    stderr: 'flowgate: there is no node "never" in the active flows.\n',
  });
  expect(await flowgate("inject", "i-1", "--message", "[]")).toEqual({
    code: 1,
    stdout: "",
    stderr: `flowgate: --message: must be a JSON object, such as '{"payload": 1}'.\nflowgate: See flowgate inject --help.\n`,
  });
});
