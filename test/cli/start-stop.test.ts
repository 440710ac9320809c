import { once } from "node:events";
import { mkdtempDisposable, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { connectNodeAdapter } from "@connectrpc/connect-node";
import { RuntimeService } from "@flowgate/client";
import { afterAll, beforeAll, expect, test } from "vitest";
import { endpoint } from "../e2e/flow-builders.ts";
import { deploy } from "../e2e/deploy.ts";
import { type Service, startService } from "../e2e/service.ts";
import { type Outcome } from "./run-cli.ts";
import { runCommand } from "./run-command.ts";
import { atTerminal, needsTerminal } from "./terminal.ts";

let service: Service;
let env: Record<string, string>;

beforeAll(async () => {
  service = await startService({});
  env = { FLOWGATE_SERVER: service.url };
  await deploy(service, { flows: endpoint("/a", `msg.payload = "a"`) });
});
afterAll(() => service?.[Symbol.asyncDispose]());

const flowgate = (...args: string[]): Promise<Outcome> => runCommand(args, { env });

test("stops the flows and starts them again, and says so where they do not run", async () => {
  expect(await flowgate("stop")).toEqual({
    code: 0,
    stdout: "The flows are stopped. They remain so, also after deployments and restarts, until flowgate start.\n",
    stderr: "",
  });
  const status = await flowgate("status");
  expect(status).toMatchObject({ code: 4, stdout: expect.stringMatching(/^Flows {2,}stopped$/m) as string });

  await using folder = await mkdtempDisposable(join(tmpdir(), "flowgate-"));
  const file = join(folder.path, "flows.json");
  await writeFile(file, JSON.stringify(endpoint("/b", `msg.payload = "b"`)));
  const deployed = await flowgate("deploy", file, "--force");
  expect(deployed.code).toBe(0);
  expect(deployed.stdout).toMatch(
    /\nDeployed revision \S{8}\. The flows are stopped: start them with flowgate start\.\n$/,
  );
  expect(await flowgate("deploy", file, "--wait", "1")).toMatchObject({
    code: 4,
    stderr: expect.stringMatching(
      /^flowgate: No changes: revision \S{8} remains active\. The flows are stopped: start them with flowgate start\.$/m,
    ) as string,
  });
  expect((await flowgate("history", "--outcome", "stopped")).stdout).toContain("stopped");

  const started = await flowgate("start", "-o", "json");
  expect({ code: started.code, response: JSON.parse(started.stdout) as unknown }).toMatchObject({
    code: 0,
    response: { outcome: "running" },
  });
  expect(await service.get("/b")).toBe("b");
  expect((await flowgate("start")).stdout).toMatch(/^The flows of revision \S+ are running\.\n$/);
});

test("start fails with 4 if the flows do not run", async () => {
  await deploy(service, { flows: [{ id: "x", type: "no such type", wires: [] }] });
  expect(await flowgate("start")).toEqual({
    code: 4,
    stdout: "",
    stderr:
      "flowgate: The flows were started, but do not run (failed). These node types are not installed: no such type. See flowgate status.\n",
  });
});

test.each<[response: { started: true } | { runningReplicas: string[] }, message: string]>([
  [{ started: true }, "The flows are not stopped: they have been started again meanwhile. See flowgate audit list."],
  [
    { runningReplicas: ["one", "two"] },
    "The flows are being stopped, but still run on: one, two. See flowgate status.",
  ],
])("stop fails if flows run: %j", async (response, message) => {
  const routes = connectNodeAdapter({
    routes: (router) => void router.rpc(RuntimeService.method.stopFlows, () => response),
  });
  const server = createServer(routes).listen(0, "127.0.0.1");
  using _ = { [Symbol.dispose]: () => void server.close() };
  await once(server, "listening");
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  expect(await runCommand(["stop"], { env: { FLOWGATE_SERVER: url } })).toEqual({
    code: 1,
    stdout: "",
    stderr: `flowgate: ${message}\n`,
  });
});

test("stop asks at a terminal", needsTerminal, async () => {
  const { code, shown } = await atTerminal(["stop"], [["Stop all flows", "n"]], env);
  expect({ code, shown }).toMatchObject({ code: 1, shown: expect.stringContaining("Nothing was stopped.") as string });
});
