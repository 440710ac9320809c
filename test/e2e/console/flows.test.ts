import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { missingBrowser } from "../browser.ts";
import { deploy } from "../deploy.ts";
import { type Node, functionNode, tab } from "../flow-builders.ts";
import { bearer, json } from "../rest.ts";
import { type Service, startService } from "../service.ts";
import { login, user } from "../users.ts";
import { Console, phone } from "./console.ts";

const hostile = "<img src=x onerror=alert(1)>";

const flows: Node[] = [
  { ...tab("orders"), label: "Orders" },
  { ...tab("other"), label: hostile },
  { id: "start", type: "inject", z: "orders", name: "start", props: [], x: 120, y: 80, wires: [["price"]] },
  functionNode("price", {
    z: "orders",
    name: "price an order",
    x: 320,
    y: 80,
    func: `node.status({ fill: "green", shape: "dot", text: "priced" });\nnode.error("no price " + ${JSON.stringify(hostile)}, msg);\nmsg.payload = "an order of 7";\nreturn msg;`,
    wires: [["show"]],
  }),
  { id: "show", type: "debug", z: "orders", name: "show", active: true, x: 540, y: 80, complete: "payload", wires: [] },
  functionNode("lost", { z: "selection", name: "without a tab", x: 300, y: 300, wires: [[]] }),
  functionNode("alone", { z: "other", name: "the only one", x: 300, y: 300, wires: [[]] }),
];

describe.skipIf(missingBrowser !== undefined)("the page of the flows", () => {
  let service: Service;
  beforeAll(async () => {
    const config = {
      adminAuth: { users: [user("admin", "*"), user("viewer", "read")] },
      runtime: { freshProcess: "never" },
    };
    service = await startService({ config });
    const headers = bearer(await login(service, { username: "admin" }));
    await deploy(service, { flows }, "full", { ...headers, "service-deployment-message": "First flows" });
  });
  afterAll(() => service?.[Symbol.asyncDispose]());

  test("finds a node, injects and shows what happens, on a phone", async () => {
    const screen = { ...phone, colorScheme: "dark" } as const;
    await using console = await Console.open(service, { ...screen, username: "admin", path: "/flows/orders" });
    const { page } = console;
    const panel = page.getByRole("complementary", { name: "Node" });

    // By the list, which is what those use who can't see or point.
    await page.locator("summary", { hasText: "Nodes" }).click();
    await page.getByLabel("Filter the nodes").fill("price");
    await page.getByRole("button", { name: /^price an order/ }).click();
    await panel.getByRole("heading", { name: "price an order" }).waitFor();
    expect(new URL(page.url()).search).toBe("?node=price");
    await panel.locator(".cm-content", { hasText: "node.status" }).waitFor();

    await page.getByRole("search").getByRole("searchbox").fill("order of");
    await page.getByRole("search").getByRole("link", { name: "price an order" }).waitFor();
    await page.getByRole("search").getByRole("searchbox").fill("");

    // The debug messages of another node are shown while it is selected.
    await page.getByLabel("Filter the nodes").fill("");
    await page.getByRole("button", { name: /^show/ }).click();
    await panel.getByText("Those that the node sends").waitFor();
    await page.getByRole("button", { name: /^start/ }).click();
    await panel.getByRole("button", { name: "Inject" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Inject" }).click();
    await page.getByRole("dialog").waitFor({ state: "detached" });
    await page.getByRole("button", { name: /^price an order.*priced/ }).click();
    await panel.getByText("green, dot, priced").waitFor();
    await panel.getByText(`no price ${hostile}`).first().waitFor();
    await page.getByRole("link", { name: /Orders.*error/ }).waitFor();

    await panel.getByRole("button", { name: "Who changed this node?" }).click();
    await panel.getByText("First flows").first().waitFor();
    await panel.getByText("admin", { exact: true }).first().waitFor();

    expect(await console.violations()).toEqual([]);
    expect(console.complaints).toEqual([]);
  });

  test("shows the debug messages of a node", async () => {
    await using console = await Console.open(service, { username: "admin", path: "/flows/orders?node=show" });
    const { page } = console;
    await page.getByText("Those that the node sends").waitFor();
    const headers = bearer(await login(service, { username: "admin" }));
    await expect
      .poll(
        async () => {
          await service.send("POST", "/runtime/nodes/start:inject", { headers: { ...headers, ...json }, body: "{}" });
          return page.getByText("an order of 7").count();
        },
        { timeout: 60_000, interval: 500 },
      )
      .toBeGreaterThan(0);
  });

  test("selects the node that was clicked in the drawing", async () => {
    await using console = await Console.open(service, { username: "viewer", path: "/flows/other" });
    const { page } = console;
    // All of the tab is in view, and its only node in the middle.
    await page.getByRole("application").click();
    await page.getByRole("heading", { name: "the only one" }).waitFor();
    expect(new URL(page.url()).search).toBe("?node=alone");
    await expect(page.getByText(hostile).count()).resolves.toBeGreaterThan(0);

    // Without the permissions, there are no controls.
    expect(await page.getByRole("button", { name: "Inject" }).count()).toBe(0);
    expect(await page.getByRole("button", { name: "Disable" }).count()).toBe(0);
    expect(console.complaints).toEqual([]);
  });

  test("paints nothing while nothing changes, and again when someone moves the drawing", async () => {
    await using console = await Console.open(service, { username: "viewer", path: "/flows/other" });
    const { page } = console;
    const drawing = page.getByRole("application");
    await drawing.waitFor();
    const countPaints = (press: string): Promise<number> =>
      page.evaluate(`(async () => {
        const frames = async (count) => {
          for (let frame = 0; frame < count; frame += 1) {
            await new Promise(requestAnimationFrame);
          }
        };
        await frames(20);
        let paints = 0;
        const { fillRect } = CanvasRenderingContext2D.prototype;
        CanvasRenderingContext2D.prototype.fillRect = function (...parameters) {
          paints += 1;
          fillRect.apply(this, parameters);
        };
        ${press}
        await frames(30);
        CanvasRenderingContext2D.prototype.fillRect = fillRect;
        return paints;
      })()`);
    const arrow = `document.querySelector("[role=application]").dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowLeft" }));`;
    expect(await countPaints("")).toBe(0);
    expect(await countPaints(arrow)).toBeGreaterThan(0);
  });

  test("shows nodes whose tab does not exist as a tab", async () => {
    await using console = await Console.open(service, { username: "viewer", path: "/flows/selection" });
    const { page } = console;
    await page.getByRole("heading", { name: "selection", exact: true }).waitFor();
    await page.getByText("No tab has this id, as in an exported selection of nodes.").waitFor();
    await page
      .getByRole("navigation", { name: "Tabs and subflows" })
      .getByRole("link", { name: "selection" })
      .waitFor();
    await page.getByRole("searchbox").fill("without a tab");
    await page.getByRole("link", { name: "without a tab" }).click();
    await page.waitForURL(/\/flows\/selection\?node=lost$/);
    expect(console.complaints).toEqual([]);
  });

  test("disables a tab after a question, and enables it again", async () => {
    await using console = await Console.open(service, { username: "admin", path: "/flows/other" });
    const { page } = console;
    for (const [verb, next] of [
      ["Disable", "Enable"],
      ["Enable", "Disable"],
    ] as const) {
      await page.getByRole("button", { name: verb, exact: true }).click();
      await page.getByRole("dialog").getByRole("button", { name: verb, exact: true }).click();
      await page.getByRole("dialog").waitFor({ state: "detached" });
      await page.getByRole("button", { name: next, exact: true }).waitFor();
    }
    expect(console.complaints).toEqual([]);
  });

  test("goes from change to change in the picture of a difference", async () => {
    const headers = bearer(await login(service, { username: "admin" }));
    const changed = flows.map((node) =>
      node.id === "price" ? { ...node, x: 360, y: 200 } : node.id === "start" ? { ...node, name: "begin" } : node,
    );
    const rev = await deploy(service, { flows: changed }, "full", headers);
    await using console = await Console.open(service, { username: "viewer", path: `/history/${rev}?view=picture` });
    const { page } = console;
    await page.getByRole("application", { name: /Orders/ }).focus();
    await page.locator("summary", { hasText: "Changes" }).click();
    for (const [key, name] of [
      ["n", "begin"],
      ["n", "price an order"],
      ["p", "begin"],
    ] as const) {
      await page.keyboard.press(key);
      await page.locator(`.flow-changes [aria-current="true"]`, { hasText: name }).waitFor();
    }
    await page.getByLabel("Layout").selectOption("Side by side");
    await page.getByRole("application", { name: /Before/ }).waitFor();
    expect(await console.violations()).toEqual([]);
    expect(console.complaints).toEqual([]);
  });

  test("shows no errors of flows that were stopped", async () => {
    const headers = bearer(await login(service, { username: "admin" }));
    await using console = await Console.open(service, { username: "viewer", path: "/flows/other" });
    const failing = console.page.getByRole("link", { name: /Orders.*error/ });
    expect((await service.send("POST", "/runtime/nodes/start:inject", { headers })).status).toBe(200);
    await failing.waitFor();
    expect((await service.send("POST", "/runtime:stop", { headers })).status).toBe(200);
    await failing.waitFor({ state: "detached" });
    expect(console.complaints).toEqual([]);
  });
});
