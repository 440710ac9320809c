import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { missingBrowser } from "../browser.ts";
import { deploy } from "../deploy.ts";
import { functionNode, type Node } from "../flow-builders.ts";
import { bearer } from "../rest.ts";
import { type Service, startService } from "../service.ts";
import { login, user } from "../users.ts";
import { Console, phone } from "./console.ts";

const html = `<img src=x onerror="window.hacked=1">`;
const secret = "correct horse battery";

/** A flow whose function can be told apart, after lines that do not change. */
function invoices(code: string, others: readonly Node[] = []): Node[] {
  const lines = Array.from({ length: 20 }, (_, index) => `// line ${index}`).join("\n");
  return [
    { id: "invoices", type: "tab", label: "Invoices" },
    functionNode("total", { z: "invoices", x: 200, y: 80, name: "Total", func: `${lines}\n${code}`, wires: [[]] }),
    ...others,
  ];
}

const mail: Node[] = [
  { id: "hostile", type: "comment", z: "invoices", x: 200, y: 160, name: html, info: html },
  { id: "reversed", type: "comment", z: "invoices", x: 200, y: 220, name: "exe\u202Efdp", info: "" },
  { id: "broker", type: "mqtt-broker", name: "Broker", broker: "mq.example", credentials: { user: secret } },
];

/** Its flows fail when they start. */
const failing: Node[] = [
  { id: "invoices", type: "tab", label: "Invoices" },
  functionNode("total", { z: "invoices", x: 200, y: 80, name: "Total", initialize: 'node.error("no rate");' }),
];

/** `required` are the tabs whose changes another user has to approve. */
async function start(required: readonly string[] = []): Promise<Service> {
  const users = [
    user("ada", "*"),
    user("bob", ["*", "flows.deploy_unapproved"]),
    user("viewer", "read"),
    user("<b>eve</b>", "*"),
  ];
  return startService({
    config: { adminAuth: { users }, approvals: { required }, runtime: { freshProcess: "never" } },
  });
}

describe.skipIf(missingBrowser !== undefined)("the history", () => {
  let service: Service;
  beforeAll(async () => {
    service = await start();
  });
  afterAll(() => service?.[Symbol.asyncDispose]());

  async function deployAs(username: string, message: string, flows: readonly Node[], type = "full"): Promise<string> {
    const token = await login(service, { username });
    return deploy(service, { flows }, type, { ...bearer(token), "service-deployment-message": message });
  }

  test("lists revisions by filters that are in the address, and new ones as they are deployed", async () => {
    await deployAs("ada", "Total of the invoices", invoices("return msg;"));
    await deployAs("<b>eve</b>", html, invoices("return msg;", mail));
    await using console = await Console.open(service, { username: "ada", path: "/history" });
    const { page } = console;
    await page.getByRole("link", { name: html }).waitFor();
    await page.getByText("<b>eve</b>").first().waitFor();

    await page.getByLabel("User").fill("ada");
    await page.getByRole("link", { name: html }).waitFor({ state: "detached" });
    expect(new URL(page.url()).searchParams.get("user")).toBe("ada");
    await page.getByLabel("Outcome").selectOption("failed");
    await page.getByText("No revision has these properties.").waitFor();
    await page.reload();
    await page.getByText("No revision has these properties.").waitFor();
    await page.getByLabel("Outcome").selectOption("");
    await page.getByRole("link", { name: "Total of the invoices" }).waitFor();

    await deployAs("ada", "While the list is open", invoices("// later\nreturn msg;", mail));
    await page.getByRole("link", { name: "While the list is open" }).focus();
    await page.keyboard.press("ArrowDown");
    await expect.poll(() => page.evaluate("document.activeElement.textContent")).toBe("Total of the invoices");
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { name: "Total of the invoices" }).waitFor();
    expect(await page.evaluate("typeof hacked")).toBe("undefined");
    expect(console.complaints).toEqual([]);
  });

  test.each([
    ["side by side on a desktop", { colorScheme: "light" as const }, ".cm-merge-a"],
    ["in one column on a phone", { ...phone, colorScheme: "dark" as const }, ".cm-deletedChunk"],
  ])("shows what changed as text, with code %s, and as a picture", async (_, screen, place) => {
    await deployAs("ada", "Before", invoices("msg.payload *= 1.07;\nreturn msg;"));
    const rev = await deployAs("ada", "", invoices("msg.payload *= 1.19;\nreturn msg;", mail), "nodes");
    await using console = await Console.open(service, { ...screen, username: "ada", path: `/history/${rev}` });
    const { page } = console;
    await page.locator(place).waitFor();
    await page.getByText("msg.payload *= 1.19;").waitFor();
    await page.getByText("17 unchanged lines").first().waitFor();
    expect(await page.getByText("// line 3", { exact: true }).count()).toBe(0);
    await page.getByRole("button", { name: "Show unchanged lines" }).click();
    await page.getByText("// line 3", { exact: true }).first().waitFor();

    await page.getByRole("heading", { name: html }).waitFor();
    await page.getByRole("heading", { name: String.raw`exe\u{202e}fdp` }).waitFor();
    await page.getByText("user: set").waitFor();
    expect(await page.content()).not.toContain(secret);

    await page.getByRole("button", { name: "Next change" }).click();
    const focused = (): Promise<unknown> => page.evaluate("document.activeElement.querySelector('code').textContent");
    // After the change whose lines were shown.
    await expect.poll(focused).toBe("hostile");
    await page.keyboard.press("n");
    await expect.poll(focused).toBe("reversed");
    await page.keyboard.press("p");
    await expect.poll(focused).toBe("hostile");
    expect(await console.violations()).toEqual([]);

    await page.getByRole("button", { name: "Picture" }).click();
    await page.locator("canvas").first().waitFor();
    expect(new URL(page.url()).searchParams.get("view")).toBe("picture");
    expect(await console.violations()).toEqual([]);

    expect(await page.evaluate("typeof hacked")).toBe("undefined");
    expect(console.complaints).toEqual([]);
  });

  test("compares with any revision", async () => {
    const first = await deployAs("ada", "One", invoices("return 1;"));
    await deployAs("ada", "Two", invoices("return 2;"));
    await deployAs("ada", "Three", invoices("return 3;"));
    await using console = await Console.open(service, { username: "ada", path: `/history/${first}` });
    const { page } = console;
    const compared = page.getByLabel("Compared with");
    await compared.selectOption("The active revision");
    await page.getByText("return 3;").first().waitFor();
    const two = await compared.locator("option", { hasText: "Two" }).first().getAttribute("value");
    await compared.selectOption(two);
    await page.getByText("return 2;").first().waitFor();
    expect(new URL(page.url()).searchParams.get("base")).toBe(two);
  });

  test("undoes the last deployment after showing what that does, and then shows what came of it", async () => {
    await deployAs("ada", "Good", invoices("return msg;"));
    await deployAs("ada", "Bad", invoices("throw msg;", mail));
    await using console = await Console.open(service, { username: "ada", path: "/history" });
    const { page } = console;
    await page.getByRole("button", { name: "Undo", exact: true }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByText("What is lost:").waitFor();
    await dialog.getByText("Context of removed items: 3 nodes and tabs.").waitFor();
    await dialog.getByText("return msg;").waitFor();
    expect(await console.violations()).toEqual([]);
    await dialog.getByLabel("Message").fill("It threw");
    await dialog.getByRole("button", { name: "Undo", exact: true }).click();
    await dialog.getByText("Its flows are running").waitFor();
    expect(await console.violations()).toEqual([]);
    await dialog.getByRole("button", { name: "Done" }).click();
    await page.getByRole("link", { name: "It threw" }).first().click();
    await page.getByText(/^Undo, back to/).waitFor();
    expect(console.complaints).toEqual([]);
  });

  test("returns to the present flows if those that are restored fail", async () => {
    const rev = await deployAs("ada", "Fails", failing);
    await deployAs("ada", "Runs", invoices("return msg;"));
    await using console = await Console.open(service, { username: "ada", path: `/history/${rev}` });
    const { page } = console;
    await page.getByRole("button", { name: "Restore" }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByLabel("If the flows fail").selectOption("Return to the present flows");
    await dialog.getByRole("button", { name: "Restore" }).click();
    await dialog.getByText("Its flows did not run, and were undone").waitFor();
    await dialog.getByText("no rate").first().waitFor();
    await dialog.getByRole("button", { name: "Done" }).click();
    await console.show("/history");
    await page
      .getByText(/^Automatic undo, back to/)
      .first()
      .waitFor();
    expect(await page.getByRole("button", { name: "Undo", exact: true }).count()).toBe(0);
  });

  test("says that another deployment came in between, and plans again", async () => {
    const rev = await deployAs("ada", "Old", invoices("return 1;"));
    await deployAs("ada", "New", invoices("return 2;"));
    await using console = await Console.open(service, { username: "ada", path: `/history/${rev}` });
    const { page } = console;
    await page.getByRole("button", { name: "Restore" }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByText("return 2;").waitFor();
    await deployAs("bob", "In between", invoices("return 3;"));
    await dialog.getByText("Another deployment came in between.").waitFor();
    await dialog.getByText("In between", { exact: true }).waitFor();
    await dialog.getByText("bob").waitFor();
    expect(await console.violations()).toEqual([]);
    await dialog.getByRole("button", { name: "Show the plan again" }).click();
    await dialog.getByText("return 3;").waitFor();
    await dialog.getByRole("button", { name: "Restore" }).click();
    await dialog.getByText("Its flows are running").waitFor();
  });

  test("lets those who may pin a revision and change its message, and others only read", async () => {
    const rev = await deployAs("ada", "To keep", invoices("return 4;"));
    await deployAs("ada", "Newer", invoices("return 5;"));
    await using console = await Console.open(service, { username: "ada", path: `/history/${rev}` });
    const { page } = console;
    await page.getByRole("button", { name: "Pin", exact: true }).click();
    await page.getByText("Pinned", { exact: true }).waitFor();
    await page.getByRole("button", { name: "Edit message" }).click();
    await page.getByRole("textbox", { name: "Message" }).fill(`Kept ${html}`);
    await page.getByRole("button", { name: "Save" }).click();
    await page.getByRole("heading", { name: `Kept ${html}` }).waitFor();

    await using viewer = await Console.open(service, { username: "viewer", path: `/history/${rev}` });
    await viewer.page.getByRole("heading", { name: `Kept ${html}` }).waitFor();
    await viewer.page.getByText("return 4;").first().waitFor();
    for (const name of ["Unpin", "Edit message", "Restore", "Undo"]) {
      expect([name, await viewer.page.getByRole("button", { name, exact: true }).count()]).toEqual([name, 0]);
    }
    expect(await viewer.page.evaluate("typeof hacked")).toBe("undefined");
  });

  test("leads to a proposal where a second person has to approve", async () => {
    await using careful = await start(["Payroll"]);
    const bob = bearer(await login(careful, { username: "bob", scope: "* flows.deploy_unapproved" }));
    const rev = await deploy(careful, { flows: invoices("return msg;") }, "full", bob);
    const payroll = { id: "payroll", type: "tab", label: "Payroll" };
    await deploy(careful, { flows: invoices("return msg;", [payroll]) }, "full", bob);
    await using console = await Console.open(careful, { username: "ada", path: `/history/${rev}` });
    const { page } = console;
    await page.getByRole("button", { name: "Restore" }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByText("What is lost:").waitFor();
    await dialog.getByRole("button", { name: "Restore" }).click();
    await dialog.getByText("This needs the approval of a second person.").waitFor();
    await dialog.getByRole("button", { name: "Propose it" }).click();
    await dialog.getByRole("link", { name: "Show the proposal" }).click();
    await page.waitForURL(/\/proposals\/./);
    expect(console.complaints.filter((each) => !each.includes("403"))).toEqual([]);
  });
});
