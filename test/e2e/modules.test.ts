import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { ModulesService } from "../../gen/flowgate/v1/modules_pb.ts";
import { runCommand } from "../cli/run-command.ts";
import { writeModules } from "../../packages/runtime/test/modules/write-modules.ts";
import { deploy } from "./deploy.ts";
import { tab } from "./flow-builders.ts";
import { call, rpcProtocolNames, rpcProtocols } from "./rpc.ts";
import { type Service, startService } from "./service.ts";

const flows = [
  tab("T"),
  tab("U"),
  { id: "a", type: "one", z: "T", wires: [] },
  { id: "b", type: "one", z: "U", wires: [] },
  { id: "c", type: "one config" },
  { id: "d", type: "absent", z: "T", wires: [] },
];

let service: Service;
beforeAll(async () => {
  service = await startService({
    prepare: (dataDir) =>
      writeModules(join(dataDir, "modules"), [
        { name: "@scope/two", version: "2.0.0" },
        { name: "node-red-contrib-one", version: "1.2.3", types: ["one", "one config"] },
      ]),
  });
  await deploy(service, { flows });
});
afterAll(() => service?.[Symbol.asyncDispose]());

const integrity = expect.stringMatching(/^sha512-/) as string;
const one = {
  name: "node-red-contrib-one",
  version: "1.2.3",
  integrity,
  types: ["one", "one config"],
  enabled: true,
  loaded: true,
  flows: ["T", "U"],
  nodeCount: 3,
  sets: [{ name: "all", types: ["one", "one config"], enabled: true }],
};
const two = { name: "@scope/two", version: "2.0.0", integrity, types: [], enabled: true, flows: [], nodeCount: 0 };

test("lists the modules, which flows use them, and the types that are missing", async () => {
  expect((await service.send("GET", "/modules")).json()).toEqual({ modules: [two, one], missingTypes: ["absent"] });
});

test.each(["/modules/node-red-contrib-one", "/modules/@scope/two", "/modules/%40scope%2Ftwo"])(
  "returns one module at %s",
  async (path) => {
    expect((await service.send("GET", path)).json()).toEqual(path.endsWith("one") ? one : two);
  },
);

test("returns Node-RED's own nodes", async () => {
  const { sets, ...others } = (await service.send("GET", "/modules/node-red")).json() as { sets: object[] };
  expect(others).toMatchObject({ name: "node-red", version: "5.0.7", enabled: true, loaded: true });
  expect(sets).toContainEqual({ name: "exec", types: ["exec"], enabled: true });
  expect(sets).toContainEqual({ name: "junction", types: ["junction"], enabled: true });
});

test("a module that is not installed is 404", async () => {
  const { status, body } = await service.send("GET", "/modules/absent");
  expect([status, JSON.parse(body)]).toEqual([
    404,
    { code: "not_found", message: `name: no module "absent" is installed` },
  ]);
});

test.each(rpcProtocolNames)("lists the modules over %s", async (protocol) => {
  const outcome = await call(rpcProtocols[protocol](service.url), ModulesService.method.listModules, {});
  expect(outcome).toMatchObject({ message: { modules: [two, one], missingTypes: ["absent"] } });
});

test("the command lists them, and names the missing types", async () => {
  const { code, stdout, stderr } = await runCommand(["module", "list", "--server", service.url]);
  expect(code).toBe(0);
  expect(stdout).toMatch(/^NAME +VERSION +STATE +USED BY +NODE TYPES$/m);
  expect(stdout).toMatch(/^node-red-contrib-one +1\.2\.3 +loaded +3 nodes +one, one config$/m);
  expect(stderr).toBe("flowgate: The active flows need node types that are not installed: absent.\n");
  const json = await runCommand(["module", "list", "--server", service.url, "-o", "json"]);
  expect(JSON.parse(json.stdout)).toEqual({ modules: [two, one], missingTypes: ["absent"] });
});

test("the command takes either a server or a data directory", async () => {
  const { code, stderr } = await runCommand(["module", "list", "--server", service.url, "--data-dir", service.dataDir]);
  expect(code).toBe(1);
  expect(stderr).toContain("The modules are either those of a server or those in a data directory");
  const local = await runCommand(["module", "list", "--data-dir", service.dataDir]);
  expect(local.stdout).toMatch(/^node-red-contrib-one +1\.2\.3$/m);
});
