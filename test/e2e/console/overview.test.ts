import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { freePort } from "../../free-port.ts";
import { missingBrowser } from "../browser.ts";
import { tryDeploy } from "../deploy.ts";
import { endpoint, type Node, tab } from "../flow-builders.ts";
import { createDatabase } from "../../postgres/postgres.ts";
import { bearer, json } from "../rest.ts";
import { type Service, startService } from "../service.ts";
import { login, user } from "../users.ts";
import { Console, phone } from "./console.ts";

const script = "<img src=x onerror=alert(1)>";

const flows: Node[] = endpoint("/fail", `node.error("it failed ${script}", msg)`).map((node) =>
  node.type === "tab" ? { ...node, label: `Orders ${script}` } : node,
);

describe.skipIf(missingBrowser !== undefined)(`the overview (${missingBrowser ?? "in Chromium"})`, () => {
  let service: Service;
  let headers: Record<string, string>;

  beforeAll(async () => {
    const users = [user("ada", "*"), user("viewer", ["runtime.read", "settings.read"])];
    const port = await freePort();
    const signIn = { url: `http://127.0.0.1:${port}` };
    const config = { adminAuth: { signIn, users }, runtime: { freshProcess: "never" } };
    service = await startService({ port, config });
    headers = bearer(await login(service, { username: "ada" }));
  });
  afterAll(() => service?.[Symbol.asyncDispose]());

  const deploy = async (nodes: readonly Node[], message: string): Promise<void> => {
    const reply = await tryDeploy(service, { flows: nodes }, "full", {
      ...headers,
      "service-deployment-message": message,
    });
    expect(reply.status).toBe(200);
  };

  test("a deployment of another client and the errors of its nodes appear, as text", async () => {
    await using console = await Console.open(service, { username: "ada" });
    const { page } = console;
    await page.getByText("Live", { exact: true }).waitFor();
    await deploy(flows, `from elsewhere ${script}`);
    const active = page.getByRole("region", { name: "Active revision" });
    await active.getByText(`from elsewhere ${script}`).waitFor();
    await active.getByText("running").waitFor();
    await page
      .getByRole("list", { name: /newest first/ })
      .getByRole("link", { name: "Deployed by ada" })
      .first()
      .waitFor();

    const path = `/runtime/nodes/${encodeURIComponent("/fail function")}:inject`;
    expect((await service.send("POST", path, { headers: { ...headers, ...json }, body: "{}" })).status).toBe(200);
    const row = page.getByRole("row").filter({ hasText: `Orders ${script}` });
    await row.getByText(`it failed ${script}`).waitFor();
    const alert = page
      .getByRole("region", { name: "Alerts" })
      .getByRole("listitem")
      .filter({ hasText: "A node fails" });
    await alert.getByText(`on Orders ${script}.`).waitFor();
    const flow = alert.getByRole("link", { name: "See the flow" });
    expect(await flow.getAttribute("href")).toBe("/console/flows/tab%20of%20~2Ffail");
    const node = row.getByRole("link", { name: "function /fail function" });
    expect(await node.getAttribute("href")).toBe("/console/flows/tab%20of%20~2Ffail?node=%2Ffail%20function");
    await expect.poll(() => page.getByRole("figure").locator("canvas").count()).toBe(2);
    expect(console.complaints).toEqual([]);
  });

  test("missing types are an alert until a deployment needs them no more", async () => {
    await using console = await Console.open(service, { username: "ada", ...phone, colorScheme: "dark" });
    const { page } = console;
    const alerts = page.getByRole("region", { name: "Alerts" });
    await page.getByText("Live", { exact: true }).waitFor();
    await deploy([tab("T"), { id: "m", type: "no such type", z: "T", x: 1, y: 1, wires: [] }], "needs a module");
    await alerts.getByText("these node types are not installed: no such type").waitFor();
    expect(await alerts.getByRole("link", { name: "Install modules" }).getAttribute("href")).toBe("/console/modules");
    await deploy(flows, "needs none");
    await alerts.getByText("No alerts.").waitFor();
    const width = await page.evaluate("document.documentElement.scrollWidth");
    expect(width).toBe(phone.viewport?.width);
    expect(console.complaints).toEqual([]);
  });

  test("flows are stopped, started and restarted after a question", async () => {
    await using console = await Console.open(service, { username: "ada" });
    const { page } = console;
    const state = page.getByRole("region", { name: "Flows", exact: true });
    await state.getByText("running").waitFor();
    const confirm = async (name: string): Promise<void> => {
      await page.getByRole("button", { name, exact: true }).click();
      const dialog = page.getByRole("dialog", { name: new RegExp(`^${name} the flows`) });
      expect(await console.violations()).toEqual([]);
      await dialog.getByRole("button", { name, exact: true }).click();
      await dialog.waitFor({ state: "detached" });
    };
    await confirm("Stop");
    await state.getByText("stopped").first().waitFor();
    await page.getByText("By ada. They remain stopped").waitFor();
    await confirm("Start");
    await state.getByText("running").waitFor();
    await confirm("Restart");
    await page.getByText("The flows were restarted").first().waitFor();
    expect(console.complaints).toEqual([]);
  });

  test("flows that are stopped by another client are an alert with who has stopped them", async () => {
    await using console = await Console.open(service, { username: "viewer" });
    const { page } = console;
    await page.getByText("No alerts.").waitFor();
    // There are no controls for users who may only read.
    expect(await page.getByRole("button", { name: /Stop|Restart|Start/ }).count()).toBe(0);
    await page.getByText("Changes of state need the permission logs.read.").waitFor();
    const post = (path: string) => service.send("POST", path, { headers: { ...headers, ...json }, body: "{}" });
    expect((await post("/runtime:stop")).status).toBe(200);
    await page.getByText("By ada. They remain stopped").waitFor();
    expect((await post("/runtime:start")).status).toBe(200);
    await page.getByText("No alerts.").waitFor();
    expect(console.complaints).toEqual([]);
  });

  test("a replica that was killed is an alert until one of its name is there", async () => {
    await using database = await createDatabase();
    const config = {
      store: database.url,
      credentialSecret: "a secret that both replicas share",
      runtime: { mode: "one" },
    };
    await using one = await startService({ config });
    await using other = await startService({ config, ownProcess: true });
    await using console = await Console.open(one);
    const { page } = console;
    const name = other.url.replace("http://127.0.0.1", "");
    await page.getByRole("row").filter({ hasText: name }).waitFor();
    const alerts = page.getByRole("region", { name: "Alerts" });
    await alerts.getByText("No alerts.").waitFor();
    await other.kill9();
    await alerts.getByRole("listitem").filter({ hasText: name }).waitFor();
    await using _ = await startService({ config, dataDir: other.dataDir, port: other.port });
    await alerts.getByText("No alerts.").waitFor();
    expect(console.complaints).toEqual([]);
  });
});
