import { mkdtempDisposable } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { deploy } from "../e2e/deploy.ts";
import { endpoint, functionNode, type Node, tab } from "../e2e/flow-builders.ts";
import { type Service, startService } from "../e2e/service.ts";
import { type Outcome } from "./run-cli.ts";
import { runCommand } from "./run-command.ts";

let service: Service;
let folder: AsyncDisposable & { readonly path: string };

const initialize = `
  global.set("price", 12.5);
  global.set("text", "two\\nlines");
  flow.set("total", { sum: 1 });
  context.set("count", 3);
  context.set("hostile", "\\u009b2J\\u202e");`;

const flows: Node[] = [
  ...endpoint("/values", `msg.payload = { price: global.get("price"), text: global.get("text") }`),
  { ...tab("T"), label: "Invoices" },
  functionNode("n", { z: "T", name: "counter", initialize }),
];

beforeAll(async () => {
  folder = await mkdtempDisposable(join(tmpdir(), "flowgate-cli-"));
  service = await startService({});
  await deploy(service, { flows });
});
afterAll(async () => {
  await service?.[Symbol.asyncDispose]();
  await folder?.[Symbol.asyncDispose]();
});

const flowgate = (args: readonly string[], input = ""): Promise<Outcome> =>
  runCommand(["context", ...args], { env: { FLOWGATE_SERVER: service.url, XDG_CONFIG_HOME: folder.path }, input });

const values = async (): Promise<unknown> => JSON.parse(await service.get("/values"));

test.each([
  ["global/price", "12.5\n"],
  ["global/text", "two\nlines\n"],
  ["flow/Invoices/total", '{\n  "sum": 1\n}\n'],
  ["flow/T/total.sum", "1\n"],
  ["node/counter/count", "3\n"],
  ["node/counter", 'count    3\nhostile  "\\x9b2J\\u202e"\n'],
  ["node/counter/hostile", "\\x9b2J\\u202e\n"],
  ["global", 'price  12.5\ntext   "two\\nlines"\n'],
])("get %s prints it", async (name, stdout) => {
  expect(await flowgate(["get", name])).toEqual({ code: 0, stdout, stderr: "" });
});

test("get lists the keys of all scopes, and prints responses for programs", async () => {
  const { stdout } = await flowgate(["get"]);
  const rows = stdout
    .trimEnd()
    .split("\n")
    .map((line) => line.split(/ {2,}/));
  expect(rows[0]).toEqual(["SCOPE", "STORE", "KEYS"]);
  expect(rows.slice(1).map(([scope, , keys]) => [scope, keys])).toEqual([
    ["global", "price, text"],
    ["flow/T", "total"],
    ["node/n", "count, hostile"],
  ]);
  const json = JSON.parse((await flowgate(["get", "flow/Invoices/total", "-o", "json"])).stdout) as unknown;
  expect(json).toMatchObject({ value: { sum: 1 } });
});

test("set changes a value: JSON, a text, or stdin", async () => {
  const text = async (args: readonly string[], input?: string) => {
    expect(await flowgate(["set", "global/text", ...args], input)).toEqual({
      code: 0,
      stdout: "Set global/text.\n",
      stderr: "",
    });
    return values();
  };
  expect(await text(["[1, null]"])).toMatchObject({ text: [1, null] });
  expect(await text(["-5"])).toMatchObject({ text: -5 });
  expect(await text(["a text"])).toMatchObject({ text: "a text" });
  expect(await text(["0012", "--string"])).toMatchObject({ text: "0012" });
  expect(await text(["12", "--string"])).toMatchObject({ text: "12" });
  expect(await text(["-"], '{"large": true}\n')).toMatchObject({ text: { large: true } });
});

test("rm deletes a value", async () => {
  expect(await flowgate(["rm", "flow/Invoices/total"])).toEqual({
    code: 0,
    stdout: "Deleted flow/T/total.\n",
    stderr: "",
  });
  const gone = await flowgate(["get", "flow/Invoices/total"]);
  expect(gone).toMatchObject({ code: 1, stdout: "", stderr: expect.stringContaining("flow/T/total") as string });
});

test.each(["price", "flow", "flow/", "tab/T/total", "global/"])("set rejects the name %j", async (name) => {
  expect(await flowgate(["set", name, "1"])).toEqual({
    code: 1,
    stdout: "",
    stderr: `flowgate: ${name}: names no value. Write global/KEY, flow/TAB/KEY or node/NODE/KEY, with the label, name or id of the tab or node.\nflowgate: See flowgate context set --help.\n`,
  });
});
