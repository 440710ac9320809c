import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { freePort } from "../../free-port.ts";
import { openTcpProxy, type TcpProxy } from "../../tcp-proxy.ts";
import { missingBrowser } from "../browser.ts";
import { deploy } from "../deploy.ts";
import { functionNode, type Node, tab } from "../flow-builders.ts";
import { bearer, json } from "../rest.ts";
import { type Service, startService } from "../service.ts";
import { login, user } from "../users.ts";
import { Console, phone } from "./console.ts";

const flows: Node[] = [
  { ...tab("T"), label: "Orders\u202E" },
  functionNode("fails", { z: "T", name: "Parse", func: `throw new Error("failed " + msg.payload)` }),
  functionNode("warns", {
    z: "T",
    name: "Check",
    func: `node.warn("checked " + msg.payload); return msg;`,
    wires: [["shows"]],
  }),
  { id: "shows", type: "debug", z: "T", x: 1, y: 1, name: "Shown", active: true, complete: "payload", wires: [] },
];

describe.skipIf(missingBrowser !== undefined)(`the log (${missingBrowser ?? "in Chromium"})`, () => {
  let service: Service;
  let proxy: TcpProxy;
  let headers: Record<string, string>;

  beforeAll(async () => {
    const port = await freePort();
    proxy = await openTcpProxy(port);
    const signIn = { url: `http://127.0.0.1:${proxy.port}` };
    service = await startService({ port, config: { adminAuth: { signIn, users: [user("ada", "*")] } } });
    headers = bearer(await login(service, { username: "ada" }));
    await deploy(service, { flows }, "full", headers);
  });
  afterAll(async () => {
    await service?.[Symbol.asyncDispose]();
    await proxy?.[Symbol.asyncDispose]();
  });

  const open = (path: string, screen = {}): Promise<Console> =>
    Console.open({ url: `http://127.0.0.1:${proxy.port}` }, { ...screen, username: "ada", path });

  const inject = async (node: string, payload: unknown): Promise<void> => {
    const body = JSON.stringify({ message: { payload } });
    const reply = await service.send("POST", `/runtime/nodes/${node}:inject`, {
      headers: { ...headers, ...json },
      body,
    });
    expect(reply.status).toBe(200);
  };

  test("has what happened before and what happens, with its stack and the way to the node", async () => {
    await inject("fails", "before");
    await using console = await open("/logs", phone);
    const { page } = console;
    await page.getByText("Following").waitFor();
    await page.getByText("Error: failed before").waitFor();
    await inject("fails", "<b>live</b>");
    const entry = page.getByRole("listitem").filter({ hasText: "Error: failed <b>live</b>" });
    await entry.getByRole("button", { name: "Show all of it" }).click();
    await entry.getByText(/at Function node:fails \[Parse\]:1/).waitFor();
    expect(await entry.getByRole("link", { name: "Parse" }).getAttribute("href")).toBe("/console/flows/T?node=fails");
    expect(await console.violations()).toEqual([]);
  });

  test("holds back what arrives while it is paused, and counts it", async () => {
    await using console = await open("/logs?kinds=node_error,debug");
    const { page } = console;
    await page.getByText("Following").waitFor();
    await page.getByRole("button", { name: "Pause" }).click();
    await inject("warns", { order: 7 });
    // The warning and the debug message.
    await page.getByRole("button", { name: "Show 2 new entries" }).waitFor();
    expect(await page.getByText(`payload: {"order":7}`).count()).toBe(0);
    await page.getByRole("button", { name: "Continue" }).click();
    const entry = page.getByRole("listitem").filter({ hasText: `payload: {"order":7}` });
    await entry.getByRole("button", { name: "Show all of it" }).click();
    expect(await entry.locator("pre").textContent()).toBe(`Object\n{\n  "order": 7\n}`);
  });

  test("its filters are in its address", async () => {
    await inject("warns", "the first");
    await inject("fails", "the second");
    await using console = await open("/logs?kinds=node_error&level=error&tab=T&text=second");
    const { page } = console;
    await page.getByText("Error: failed the second").waitFor();
    expect(await page.getByLabel("Tab").locator("option:checked").textContent()).toBe(String.raw`Orders\u{202e}`);
    expect(await page.getByText("checked the first").count()).toBe(0);
    await page.getByLabel("Level").selectOption("");
    await page.getByLabel("Text").fill("the first");
    await page.getByText("checked the first").waitFor();
    expect(new URL(page.url()).search).toBe("?kinds=node_error&tab=T&text=the+first");
    await page.getByLabel("Deployments").check();
    await page.waitForURL(/kinds=node_error%2Cdeployment/);
  });

  test("has what was recorded until a time, and nothing new", async () => {
    await inject("fails", "in time");
    await using console = await open("/logs?kinds=node_error");
    const { page } = console;
    await page.getByText("Error: failed in time").waitFor();
    await page.getByLabel("Until").fill("2100-01-01T00:00");
    await page.getByText("New entries are not shown while Until is set.").waitFor();
    await page.getByText("Error: failed in time").waitFor();
    await page.getByLabel("Until").fill("2000-01-01T00:00");
    await page.getByText("There are no such entries.").waitFor();
    await page.getByLabel("Until").fill("");
    await page.getByLabel("Since").fill("2000-01-01T00:00");
    await page.getByText("Following").waitFor();
    await page.getByText("Error: failed in time").waitFor();
    expect(new URL(page.url()).searchParams.get("since")).toMatch(/^(1999|2000)-/);
  });

  test("has each entry once after the connection was lost", async () => {
    await using console = await open("/logs?kinds=node_error");
    const { page } = console;
    await page.getByText("Following").waitFor();
    await inject("fails", "while connected");
    await page.getByText("Error: failed while connected").waitFor();
    await proxy.close();
    await page.getByText("Not connected: reconnecting", { exact: true }).waitFor();
    await inject("fails", "while away");
    await proxy.open();
    await page.getByText("Error: failed while away").waitFor();
    await page.getByText("Following").waitFor();
    for (const text of ["while connected", "while away"]) {
      expect(await page.getByText(`Error: failed ${text}`).count()).toBe(1);
    }
  });
});
