import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { deploy } from "../e2e/deploy.ts";
import { endpoint, type Node, tab } from "../e2e/flow-builders.ts";
import { type Service, startService } from "../e2e/service.ts";
import { type Outcome } from "./run-cli.ts";
import { runCommand } from "./run-command.ts";
import { atTerminal, needsTerminal } from "./terminal.ts";

let service: Service;
const flows: Node[] = [
  ...endpoint("/a", `msg.payload = "a"`),
  { ...tab("b"), label: "Second" },
  { ...tab("twin-1"), label: "Twin" },
  { ...tab("twin-2"), label: "Twin", disabled: true },
];

beforeAll(async () => {
  service = await startService({ config: { runtime: { freshProcess: "never" } } });
});
afterAll(() => service?.[Symbol.asyncDispose]());
beforeEach(() => deploy(service, { flows }));

const flowgate = (...args: string[]): Promise<Outcome> => runCommand(args, { env: { FLOWGATE_SERVER: service.url } });

async function states(): Promise<Record<string, unknown>> {
  const nodes = (await service.send("GET", "/flows")).json() as Node[];
  return Object.fromEntries(nodes.filter(({ type }) => type === "tab").map(({ id, disabled }) => [id, disabled]));
}

test("disables and enables a tab by its label, with a plan", async () => {
  expect(await service.get("/a")).toBe("a");
  const disabled = await flowgate("flow", "disable", "tab tab of /a", "-m", "for now");
  expect(disabled).toMatchObject({ code: 0, stderr: "" });
  expect(disabled.stdout).toMatch(/^0 added, 0 removed, 1 changed\n[^]*nodes to start: 0, to stop: 3, to restart: 0/);
  expect(disabled.stdout).toMatch(/\nDeployed revision \S{8}\. Its flows are running\.\n$/);
  expect(await service.get("/a")).toContain("Cannot GET");
  expect((await flowgate("history", "-n", "1")).stdout).toContain("for now");
  expect((await flowgate("flow", "enable", "tab tab of /a")).code).toBe(0);
  expect(await service.get("/a")).toBe("a");
});

test("names a tab by its id, and prints the response for programs", async () => {
  const { code, stdout } = await flowgate("flow", "disable", "b", "-o", "json");
  const response = JSON.parse(stdout) as unknown;
  expect({ code, response }).toMatchObject({ code: 0, response: { id: "b", outcome: "running" } });
  expect(await states()).toMatchObject({ b: true, "twin-1": undefined });
});

test("disables a tab that exists only as the z of nodes, and lists it", async () => {
  await deploy(service, { flows: endpoint("/lost", `msg.payload = "lost"`).filter(({ type }) => type !== "tab") });
  expect((await flowgate("get", "flows")).stdout).toMatch(/^tab of \/lost {2,}tab {2,}3$/m);
  expect(await service.get("/lost")).toBe("lost");
  const disabled = await flowgate("flow", "disable", "tab of /lost");
  expect(disabled).toMatchObject({ code: 0, stderr: "" });
  expect(disabled.stdout).toMatch(/^1 added, 0 removed, 0 changed\n[^]*nodes to start: 0, to stop: 3, to restart: 0/);
  expect(await states()).toEqual({ "tab of /lost": true });
  expect(await service.get("/lost")).toContain("Cannot GET");
});

test("does not deploy a tab again that is in this state", async () => {
  const enabled = await flowgate("flow", "enable", "Second");
  expect(enabled.stdout).toMatch(/^No changes: revision \S{8} remains active\.\n$/);
  expect((await flowgate("flow", "disable", "twin-2")).stdout).toBe(enabled.stdout);
});

test("lists the tabs where the name is that of none or of several", async () => {
  expect(await flowgate("flow", "disable", "Third")).toEqual({
    code: 1,
    stdout: "",
    stderr: `flowgate: There is no tab with the label or id "Third". There are: "tab tab of /a" (tab of /a), "Second" (b), "Twin" (twin-1), "Twin" (twin-2).\n`,
  });
  expect(await flowgate("flow", "disable", "Twin")).toEqual({
    code: 1,
    stdout: "",
    stderr: `flowgate: 2 tabs have the label "Twin". Name one by its id:\nflowgate:   twin-1\nflowgate:   twin-2  disabled\n`,
  });
});

test("asks at a terminal", needsTerminal, async () => {
  const answers = [["Disable the flow", "n"]] as const;
  const { code, shown } = await atTerminal(["flow", "disable", "b"], answers, { FLOWGATE_SERVER: service.url });
  expect({ code, shown }).toMatchObject({ code: 1, shown: expect.stringContaining("Nothing was deployed.") as string });
  expect(await states()).toMatchObject({ b: undefined });
});
