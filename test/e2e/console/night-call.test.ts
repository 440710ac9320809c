import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { missingBrowser } from "../browser.ts";
import { deploy } from "../deploy.ts";
import { functionNode, type Node } from "../flow-builders.ts";
import { bearer } from "../rest.ts";
import { type Service, startService } from "../service.ts";
import { login, user } from "../users.ts";
import { Console, phone } from "./console.ts";

/** Where to write a screenshot of each step, such as docs/console for its document. */
const screenshots = process.env["FLOWGATE_SCREENSHOTS"];

function orders(charge: string): Node[] {
  return [
    { id: "orders", type: "tab", label: "Orders" },
    {
      id: "every second",
      type: "inject",
      z: "orders",
      x: 120,
      y: 80,
      name: "each second",
      props: [{ p: "payload" }],
      payload: '{"total": 12}',
      payloadType: "json",
      once: true,
      onceDelay: 0.1,
      repeat: "1",
      wires: [["charge"]],
    },
    functionNode("charge", { z: "orders", x: 280, y: 80, name: "charge", func: charge, wires: [["receipt"]] }),
    {
      id: "receipt",
      type: "debug",
      z: "orders",
      x: 440,
      y: 80,
      name: "receipt",
      active: true,
      complete: "payload",
      wires: [],
    },
  ];
}

describe.skipIf(missingBrowser !== undefined)("a call at night", () => {
  let service: Service;
  beforeAll(async () => {
    const config = {
      adminAuth: { users: [user("ada", "*"), user("bob", "*")] },
      // A process that keeps what was reported of the node before.
      runtime: { freshProcess: "never" },
    };
    service = await startService({ config });
    const deployAs = async (username: string, message: string, charge: string): Promise<string> =>
      deploy(service, { flows: orders(charge) }, "full", {
        ...bearer(await login(service, { username })),
        "service-deployment-message": message,
      });
    await deployAs("ada", "Charge orders", "msg.payload = msg.payload.total;\nreturn msg;");
    await deployAs("bob", "Charge in cents", "const { total } = msg.order;\nmsg.payload = total * 100;\nreturn msg;");
  });
  afterAll(() => service?.[Symbol.asyncDispose]());

  test("on a phone, the failing node and the change that caused it are found, and undone, in ten steps", async () => {
    await using console = await Console.open(service, { ...phone, colorScheme: "light" });
    const { page } = console;
    let step = 0;
    const record = async (name: string): Promise<void> => {
      step += 1;
      if (screenshots !== undefined) {
        await mkdir(screenshots, { recursive: true });
        await page.screenshot({ path: join(screenshots, `${String(step).padStart(2, "0")}-${name}.png`) });
      }
    };

    await console.signIn("ada");
    await page.getByText("msg.order").first().waitFor();
    await record("overview");

    await page.getByRole("link", { name: "charge", exact: true }).first().click();
    const panel = page.getByRole("complementary", { name: "Node" });
    await panel.getByRole("heading", { name: "charge" }).waitFor();
    await page.locator("main h1").scrollIntoViewIfNeeded();
    await record("flow");

    await panel.getByRole("heading", { name: "Errors" }).scrollIntoViewIfNeeded();
    await panel.getByText("line 1").first().waitFor();
    await record("errors");

    await panel.getByRole("button", { name: "Who changed this node?" }).click();
    await panel.getByText("Charge in cents").first().waitFor();
    await panel.getByText("Charge in cents").first().scrollIntoViewIfNeeded();
    await record("changes");

    await panel.getByRole("link", { name: "Difference" }).first().click();
    await page.getByRole("heading", { name: "Difference" }).waitFor();
    await page.locator(".cm-content").first().waitFor();
    await page.getByText("function charge").first().scrollIntoViewIfNeeded();
    await record("difference");

    await page.getByRole("button", { name: "Undo", exact: true }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByText("What is lost").waitFor();
    await record("plan");

    await dialog.getByLabel("Message").fill("Orders failed since it");
    await dialog.getByRole("button", { name: "Undo", exact: true }).click();
    await dialog.getByText("Its flows are running").waitFor();
    await record("undone");

    await dialog.getByRole("button", { name: "Done" }).click();
    await page.getByRole("link", { name: "Flowgate" }).click();
    await page.getByText("Orders failed since it").first().waitFor();
    await page.getByText("msg.order").first().waitFor({ state: "detached" });
    await record("healthy");

    expect(step).toBeLessThanOrEqual(10);
    expect(await console.violations()).toEqual([]);
    expect(console.complaints).toEqual([]);
  });
});
