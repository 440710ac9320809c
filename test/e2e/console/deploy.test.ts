import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { missingBrowser } from "../browser.ts";
import { deploy } from "../deploy.ts";
import { functionNode, type Node, tab } from "../flow-builders.ts";
import { bearer } from "../rest.ts";
import { type Service, startService } from "../service.ts";
import { login, user } from "../users.ts";
import { Console, phone } from "./console.ts";

const users = [
  user("ada", "*"),
  user("bob", ["read", "flows.approve"]),
  user("grace", ["read", "flows.propose"]),
  user("eve", ["read"]),
];

const comment = (id: string, z: string, name: string): Node => ({ id, type: "comment", z, x: 100, y: 100, name });
const start = [tab("one"), comment("c1", "one", "first"), tab("two"), comment("c2", "two", "second")];
const renamed = (id: string, name: string): Node[] => start.map((node) => (node.id === id ? { ...node, name } : node));

describe.skipIf(missingBrowser !== undefined)("the pages for deployments and proposals", () => {
  let service: Service;
  let ada: Record<string, string>;

  beforeAll(async () => {
    const config = { adminAuth: { users }, runtime: { freshProcess: "never" } };
    service = await startService({ config });
    ada = bearer(await login(service, { username: "ada" }));
  });
  afterAll(() => service?.[Symbol.asyncDispose]());

  const activeFlows = async () => (await service.send("GET", "/flows", { headers: ada })).json() as Node[];
  const activate = (flows: readonly Node[]) => deploy(service, { flows }, "full", ada);
  const open = (username: string, path = "/deploy", screen = {}) =>
    Console.open(service, { username, path, ...screen });

  async function plan({ page }: Console, flows: unknown): Promise<void> {
    await page.getByLabel("Flows as JSON").fill(JSON.stringify(flows, undefined, 2));
    await page.getByRole("button", { name: "Plan", exact: true }).click();
    await page.getByRole("heading", { name: "Plan", exact: true }).waitFor();
    await page.getByRole("heading", { name: "Changes" }).waitFor();
  }

  async function deployPlanned({ page }: Console, wait = ""): Promise<void> {
    await page.getByLabel("Observe for").fill(wait);
    await page.getByRole("button", { name: "Deploy", exact: true }).click();
  }

  test("flows are pasted, planned, deployed and run, with the keyboard on a phone", async () => {
    await activate(start);
    await using console = await open("ada", "/deploy", { ...phone, colorScheme: "dark" });
    const { page } = console;
    await page.getByLabel("Flows as JSON").fill(JSON.stringify(renamed("c1", "<b>pasted</b>")));
    expect(await console.violations()).toEqual([]);
    await page.getByRole("button", { name: "Plan", exact: true }).press("Enter");
    await page.getByText("<b>pasted</b>").filter({ visible: true }).first().waitFor();
    expect(await page.locator(":focus").textContent()).toBe("Plan");
    expect(await console.violations()).toEqual([]);
    await page.getByLabel("Message").fill("from the console");
    await page.getByLabel("Observe for").fill("");
    await page.getByRole("button", { name: "Deploy", exact: true }).press("Enter");
    await page.getByText("Its flows are running").waitFor();
    expect(await page.locator(":focus").textContent()).toBe("Outcome");
    expect(await console.violations()).toEqual([]);
    expect(await activeFlows()).toEqual(renamed("c1", "<b>pasted</b>"));
    expect(console.complaints).toEqual([]);
  });

  test("what is wrong with the flows is said by the service, with the place", async () => {
    await using console = await open("ada");
    const { page } = console;
    const field = page.getByLabel("Flows as JSON");
    const planButton = page.getByRole("button", { name: "Plan", exact: true });
    expect(await planButton.isDisabled()).toBe(true);
    const refused = async (text: string, message: string): Promise<void> => {
      await field.fill(text);
      await planButton.click();
      await page.getByRole("alert").getByText(message).waitFor();
    };
    await refused(
      '[\n  {"id": "a", "type": "tab"},\n  {"id": "a" "type": "x"}\n]',
      "the body is not valid JSON: ',' or '}' was expected (line 3, column 14)",
    );
    await refused('{"nodes": []}', "nodes: unknown");
    await refused('[{"id": "a", "type": "tab", "n": 9007199254740993}]', "flows[0].n: ");
    expect(await console.violations()).toEqual([]);
    await refused('[{"id": "a", "type": "tab"}, {"id": "a", "type": "x"}]', "flows[1].id: must be unique");
    await page.getByRole("button", { name: "Change the flows" }).click();
    expect(await field.inputValue()).toContain('"id": "a"');
  });

  test("a large file is planned and removed again, and flows without an active tab are deployed after a question", async () => {
    await activate(start);
    await using console = await open("ada");
    const { page } = console;
    const path = join(service.dataDir, "large.json");
    const code = "// a comment that makes the function long\n".repeat(20);
    const nodes = Array.from({ length: 500 }, (_, index) => functionNode(`f${index}`, { z: "two", func: code }));
    await writeFile(path, JSON.stringify([...start, ...nodes]));
    await page.getByLabel("Choose a file").setInputFiles(path);
    await page.getByText("large.json, 0.5 MB").waitFor();
    await page.getByRole("button", { name: "Plan", exact: true }).click();
    await page.getByText("500 added").waitFor();
    await page.getByRole("button", { name: "Change the flows" }).click();
    await page.getByRole("button", { name: "Remove" }).click();
    await plan(console, [tab("two"), comment("c3", "two", "third")]);
    await deployPlanned(console);
    const dialog = page.getByRole("dialog");
    await dialog.getByText("Removes the tab tab one.").waitFor();
    expect(await console.violations()).toEqual([]);
    expect(await activeFlows()).toEqual(start);
    await dialog.getByRole("button", { name: "Deploy anyway" }).click();
    await page.getByRole("heading", { name: "Outcome" }).waitFor();
    expect((await activeFlows()).map(({ id }) => id)).toEqual(["two", "c3"]);
  });

  test("flows that fail are undone, with the reason and the node", async () => {
    await activate(start);
    await using console = await open("ada");
    const { page } = console;
    const failing = functionNode("f1", { z: "one", name: "broken", initialize: 'node.error("no <i>power</i>")' });
    await plan(console, [...start, failing]);
    await page.getByLabel("Undo if").check();
    await deployPlanned(console, "2");
    await page.getByText("Its flows did not run, and were undone").waitFor();
    const link = page.getByRole("link", { name: "broken" });
    expect(await link.getAttribute("href")).toBe("/console/flows/one?node=f1");
    await page.getByText("no <i>power</i>").first().waitFor();
    expect(await console.violations()).toEqual([]);
    expect(await activeFlows()).toEqual(start);
    expect(console.complaints).toEqual([]);
  });

  test("a deployment in between is a conflict with the changes of both sides, which are merged", async () => {
    await activate(start);
    await using console = await open("ada");
    const { page } = console;
    await plan(console, renamed("c1", "mine"));
    await deploy(service, { flows: renamed("c2", "theirs") }, "nodes", ada);
    await page.getByText("Another deployment was made since this plan.").waitFor();
    await deployPlanned(console);
    await page.getByRole("heading", { name: "Conflict" }).waitFor();
    const rows = page.getByRole("table").getByRole("row");
    await rows.filter({ hasText: "mine" }).waitFor();
    const cells = async (text: string) =>
      (await rows.filter({ hasText: text }).getByRole("cell").allTextContents()).slice(1);
    expect(await cells("c1")).toEqual(["Changed", "unchanged", ""]);
    expect(await cells("c2")).toEqual(["unchanged", "Changed", ""]);
    expect(await console.violations()).toEqual([]);
    await page.getByRole("button", { name: "Merge and deploy" }).click();
    await page.getByText("Its flows are running").waitFor();
    await page.getByText("merged with").waitFor();
    expect(await activeFlows()).toEqual(
      start.map((node) =>
        node.id === "c1" ? { ...node, name: "mine" } : node.id === "c2" ? { ...node, name: "theirs" } : node,
      ),
    );
  });

  test("changes of the same node can't be merged, but planned again", async () => {
    const rev = await activate(start);
    await activate(renamed("c1", "theirs"));
    await using console = await open("ada");
    const { page } = console;
    await page.getByLabel("Flows as JSON").fill(JSON.stringify({ flows: renamed("c1", "mine"), rev }));
    await page.getByRole("button", { name: "Plan", exact: true }).click();
    await page.getByRole("heading", { name: "Conflict" }).waitFor();
    // First the plan of what is merged is shown.
    await page.getByRole("button", { name: "Merge and deploy" }).click();
    await page.getByRole("heading", { name: "Plan", exact: true }).waitFor();
    await page.getByRole("button", { name: "Merge and deploy" }).click();
    await page.getByText("you and others have changed the same nodes").waitFor();
    expect(await page.getByRole("button", { name: "Merge and deploy" }).count()).toBe(0);
    await page.getByRole("button", { name: "Plan again" }).click();
    await page.getByText("theirs").first().waitFor();
    await deployPlanned(console);
    await page.getByText("Its flows are running").waitFor();
    expect(await activeFlows()).toEqual(renamed("c1", "mine"));
  });

  test("who may only read sees the plan, and can't do more", async () => {
    await activate(start);
    await using console = await open("eve");
    await plan(console, renamed("c1", "of eve"));
    await console.page.getByText("You may neither deploy nor propose flows").waitFor();
    expect(await console.page.getByRole("button", { name: /^(?:Deploy|Propose)$/ }).count()).toBe(0);
  });

  test("one person proposes, another one approves exactly that, and both see the outcome", async () => {
    await activate(start);
    await using grace = await open("grace");
    await using bob = await open("bob", "/proposals");
    await plan(grace, renamed("c1", "proposed"));
    await grace.page.getByLabel("Message").fill("a <b>better</b> name");
    await grace.page.getByLabel("Observe for").fill("");
    await grace.page.getByRole("button", { name: "Propose" }).click();
    await grace.page.getByRole("link", { name: "Open the proposal" }).click();
    await grace.page.getByText("You have proposed it").waitFor();
    expect(await grace.page.getByRole("button", { name: "Approve" }).count()).toBe(0);
    expect(await activeFlows()).toEqual(start);

    // Its event has brought it to the list.
    await bob.page.getByRole("link", { name: "a <b>better</b> name" }).click();
    await bob.page.getByText("proposed").first().waitFor();
    expect(await bob.violations()).toEqual([]);
    await bob.page.getByRole("button", { name: "Approve" }).click();
    const dialog = bob.page.getByRole("dialog");
    await dialog.getByText(/[\da-f]{64}/).waitFor();
    expect(await bob.violations()).toEqual([]);
    await dialog.getByRole("button", { name: "Approve and deploy" }).click();
    await bob.page.getByText("Its flows are running").waitFor();
    await grace.page.getByText("approved", { exact: true }).waitFor();
    expect(await activeFlows()).toEqual(renamed("c1", "proposed"));
    expect([...grace.complaints, ...bob.complaints]).toEqual([]);
  });

  test("a proposal is rejected with a reason, withdrawn, or stale after another deployment", async () => {
    await activate(start);
    await using grace = await open("grace");
    await using bob = await open("bob", "/proposals");
    const propose = async (name: string) => {
      await grace.show("/deploy");
      await plan(grace, renamed("c1", name));
      await grace.page.getByLabel("Message").fill(name);
      await grace.page.getByRole("button", { name: "Propose" }).click();
      await grace.page.getByRole("link", { name: "Open the proposal" }).click();
      await grace.page.getByText("You have proposed it").waitFor();
    };
    await propose("to reject");
    await bob.page.getByRole("link", { name: "to reject" }).click();
    await bob.page.getByRole("button", { name: "Reject" }).click();
    await bob.page.getByRole("dialog").getByLabel("Reason").fill("too early");
    await bob.page.getByRole("dialog").getByRole("button", { name: "Reject" }).click();
    await grace.page.getByText("too early").waitFor();

    await propose("to withdraw");
    await grace.page.getByRole("button", { name: "Withdraw" }).click();
    await grace.page.getByRole("dialog").getByRole("button", { name: "Withdraw" }).click();
    await grace.page.getByText("withdrawn", { exact: true }).waitFor();

    await propose("to be stale");
    await activate(renamed("c2", "in between"));
    await grace.page.getByText("another deployment has replaced the revision").waitFor();
    expect(await grace.violations()).toEqual([]);
    await bob.show("/proposals?state=stale");
    await bob.page.getByRole("link", { name: "to be stale" }).waitFor();
  });
});
