import { readFile } from "node:fs/promises";
import type { Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { pack } from "../../../packages/runtime/test/modules/npm-registry.ts";
import { nodesOf, templatesOf } from "../../../packages/runtime/test/modules/write-modules.ts";
import { missingBrowser } from "../browser.ts";
import { deploy, readRuntime } from "../deploy.ts";
import { functionNode } from "../flow-builders.ts";
import { bearer } from "../rest.ts";
import { type Service, startService } from "../service.ts";
import { login, user } from "../users.ts";
import { Console } from "./console.ts";

if (missingBrowser !== undefined) {
  process.stderr.write(`The tests of the console's administration pages are skipped: ${missingBrowser}.\n`);
}

const hostile = `<img src=x onerror="document.title='script ran'">`;

const flows = [
  { id: "T", type: "tab", label: hostile },
  functionNode("counter", {
    z: "T",
    name: "Counter",
    initialize: `global.set("counter", { count: 7, text: ${JSON.stringify(hostile)} }); context.set("own", 1);`,
  }),
];

/** The element that has the focus, by what it says. */
function focused(page: Page): Promise<string> {
  return page.evaluate("document.activeElement.textContent");
}

describe.skipIf(missingBrowser !== undefined)("the administration pages of the console", () => {
  let service: Service;
  let headers: Record<string, string>;
  beforeAll(async () => {
    service = await startService({
      config: {
        adminAuth: { users: [user("admin", "*"), user("reader", "read")] },
        roles: { "release-manager": ["read", "revisions.write"] },
        modules: { deny: ["contrib-denied"] },
        runtime: { freshProcess: "never" },
      },
    });
    headers = bearer(await login(service, { username: "admin" }));
    await deploy(service, { flows }, "full", headers);
  });
  afterAll(() => service?.[Symbol.asyncDispose]());

  const status = async (token: string, path: string): Promise<number> =>
    (await service.send("GET", path, { headers: bearer(token) })).status;

  describe("tokens", () => {
    test("a token is created with chosen permissions, its secret is shown once, and it is revoked", async () => {
      await using view = await Console.open(service, { username: "admin", path: "/tokens" });
      const { page } = view;
      await page.getByRole("button", { name: "Create a token" }).click();
      const dialog = page.getByRole("dialog");
      await dialog.getByLabel("What it is for").fill(hostile);
      await dialog.getByRole("button", { name: "Create" }).click();
      expect(await dialog.getByRole("alert").textContent()).toBe("Select at least one permission.");
      await dialog.getByLabel("Lifetime").selectOption("1 day");
      await dialog.getByLabel("settings.read", { exact: true }).check();
      expect(await view.violations()).toEqual([]);
      await dialog.getByRole("button", { name: "Create" }).click();

      const secret = await dialog.getByLabel("Secret").inputValue();
      expect([await status(secret, "/settings"), await status(secret, "/flows")]).toEqual([200, 401]);
      await dialog.getByRole("button", { name: "Done" }).click();
      await dialog.waitFor({ state: "detached" });
      expect(await focused(page)).toBe("Create a token");

      const row = page.getByRole("row").filter({ hasText: hostile });
      await row.waitFor();
      expect(await page.evaluate("document.documentElement.outerHTML")).not.toContain(secret);
      await page.getByRole("button", { name: "Create a token" }).click();
      expect(await dialog.getByLabel("Secret").count()).toBe(0);
      await page.keyboard.press("Escape");

      await row.getByRole("button", { name: "Revoke" }).press("Enter");
      await dialog.getByRole("button", { name: "Revoke" }).press("Enter");
      // Rows have no role while the dialog is open.
      await expect.poll(() => status(secret, "/settings")).toBe(401);
      await row.waitFor({ state: "detached" });
      // The button that had the focus is gone.
      await expect.poll(() => page.evaluate("document.activeElement.id")).toBe("content");
      expect(await page.title()).toBe("Tokens · Flowgate");
      expect(view.complaints).toEqual([]);
    });

    test("all tokens of one user are revoked", async () => {
      const reader = { username: "reader", scope: "read" };
      const tokens = [await login(service, reader), await login(service, reader)];
      await using view = await Console.open(service, { username: "admin", path: "/tokens?user=reader" });
      const { page } = view;
      await page.getByRole("row").nth(2).waitFor();
      expect(await page.getByRole("cell", { name: "admin", exact: true }).count()).toBe(0);
      await page.getByRole("button", { name: "Revoke all of reader" }).click();
      await page.getByRole("dialog").getByRole("button", { name: "Revoke" }).click();
      await page.getByText("There are no such tokens.").waitFor();
      for (const token of tokens) {
        expect(await status(token, "/settings")).toBe(401);
      }
    });

    test("those who may only read are offered no change", async () => {
      await using view = await Console.open(service, { username: "reader", path: "/tokens" });
      await view.page.getByRole("row").nth(1).waitFor();
      expect(await view.page.getByRole("button", { name: /Create|Revoke/ }).count()).toBe(0);
    });
  });

  describe("audit", () => {
    test("filters are in the address, and select entries", async () => {
      await using view = await Console.open(service, { username: "admin", path: "/audit?kind=deployment" });
      const { page } = view;
      await page.getByRole("cell", { name: "Flows deployed or reloaded" }).first().waitFor();
      expect(await page.getByRole("cell", { name: "Signed in" }).count()).toBe(0);
      await page.getByLabel("Kind").selectOption("Signed in");
      await page.getByRole("cell", { name: "Signed in" }).first().waitFor();
      expect(new URL(page.url()).search).toBe("?kind=sign_in");
      await page.getByLabel("User").fill("reader");
      await page.waitForURL("**/audit?kind=sign_in&user=reader");
      await page
        .getByRole("button", { name: /^Details/ })
        .first()
        .click();
      expect(await page.getByRole("dialog").textContent()).toContain("sign_in");
    });

    test("the log is verified, also against the head of an earlier check", async () => {
      await using view = await Console.open(service, { username: "admin", path: "/audit" });
      const { page } = view;
      await page.getByRole("button", { name: "Verify" }).click();
      const dialog = page.getByRole("dialog");
      await dialog.getByRole("button", { name: "Verify" }).click();
      await dialog.getByText("The audit log is intact").waitFor();
      expect(await view.violations()).toEqual([]);
      await dialog.getByLabel("Head of an earlier check").fill(`1:${"0".repeat(64)}`);
      await dialog.getByRole("button", { name: "Verify" }).click();
      await dialog.getByText("The audit log did not pass the check").waitFor();
      expect(await dialog.textContent()).toContain("entry 1 has another hash than expected");
    });

    test("the export is a file with what the API exports", async () => {
      await using view = await Console.open(service, { username: "admin", path: "/audit" });
      const { page } = view;
      const downloading = page.waitForEvent("download");
      await page.getByRole("link", { name: "Export" }).click();
      const file = await downloading;
      expect(file.suggestedFilename()).toBe("flowgate-audit.ndjson");
      const { body } = await service.send("GET", "/audit:export", {
        headers: { ...headers, accept: "application/x-ndjson" },
      });
      const parse = (text: string) =>
        text
          .trim()
          .split("\n")
          .map((line) => JSON.parse(line) as unknown);
      expect(parse(await readFile(await file.path(), "utf8"))).toEqual(parse(body));
      expect(view.complaints).toEqual([]);
    });
  });

  describe("modules", () => {
    test("a module that the flows lack is installed from a file, and removed although it is in use", async () => {
      const module = { id: "own", type: "own", z: "T", x: 1, y: 1, wires: [] };
      await deploy(service, { flows: [...flows, module] }, "full", headers);
      const tarball = await pack({
        name: "contrib-own",
        version: "1.0.0",
        manifest: { "node-red": { nodes: { all: "nodes.js" } } },
        files: { "nodes.js": nodesOf(["own"]), "nodes.html": templatesOf(["own"]) },
      });
      await using view = await Console.open(service, { username: "admin", path: "/modules" });
      const { page } = view;
      await page.getByRole("heading", { name: "Node types are missing" }).waitFor();
      await page.getByRole("button", { name: "Install", exact: true }).click();
      const dialog = page.getByRole("dialog");
      await dialog.getByLabel("From a file").check();
      await dialog
        .getByLabel("Package")
        .setInputFiles({ name: "own.tgz", mimeType: "application/gzip", buffer: tarball });
      expect(await view.violations()).toEqual([]);
      await dialog.getByRole("button", { name: "Install" }).click();
      await page.getByText("contrib-own 1.0.0 is installed.").waitFor();
      expect(await readRuntime(service, headers)).toMatchObject({ state: "running" });
      const row = page.getByRole("row").filter({ hasText: "contrib-own" });
      await row.getByText("1 node in 1 flow").click();
      await row.getByRole("link", { name: hostile }).waitFor();
      expect(await row.textContent()).toContain("loaded");

      await row.getByRole("button", { name: "Remove" }).click();
      const remove = dialog.getByRole("button", { name: "Remove" });
      expect(await remove.isDisabled()).toBe(true);
      await dialog.getByLabel("All the same: the flows will not run").check();
      await remove.click();
      await page.getByText("contrib-own 1.0.0 was removed.").waitFor();
      await row.waitFor({ state: "detached" });
      await page.getByRole("cell", { name: "own", exact: true }).waitFor();
      await deploy(service, { flows }, "full", headers);
    });

    test("a module that the configuration denies is refused with the reason", async () => {
      await using view = await Console.open(service, { username: "admin", path: "/modules" });
      const { page } = view;
      await page.getByRole("button", { name: "Install", exact: true }).click();
      const dialog = page.getByRole("dialog");
      await dialog.getByLabel("Name").fill("contrib-denied");
      await dialog.getByRole("button", { name: "Install" }).click();
      expect(await dialog.getByRole("alert").textContent()).toMatch(/^contrib-denied.*modules\.deny/);
    });
  });

  describe("context", () => {
    test("a value is read when it is asked for, changed and deleted", async () => {
      await using view = await Console.open(service, { username: "admin", path: "/context" });
      const { page } = view;
      const global = page.getByRole("region", { name: "Keys of Global" });
      await page.getByRole("region", { name: "Keys of Counter" }).waitFor();
      const paths = view.requests.map((url) => new URL(url).pathname);
      expect(paths.filter((path) => path.endsWith("/ListContext"))).not.toEqual([]);
      expect(paths.filter((path) => path.endsWith("/GetContext"))).toEqual([]);
      await global.getByRole("button", { name: "Show counter" }).click();
      await global.getByText(JSON.stringify(hostile)).waitFor();

      await global.getByRole("button", { name: "Change counter" }).click();
      const dialog = page.getByRole("dialog");
      await dialog.getByLabel("Value as JSON").fill('{"count": ');
      await dialog.getByRole("button", { name: "Save" }).click();
      expect(await dialog.getByRole("alert").textContent()).toMatch(/^This is not JSON/);
      await dialog.getByLabel("Value as JSON").fill('{"count": 8}');
      await dialog.getByRole("button", { name: "Save" }).click();
      await dialog.waitFor({ state: "detached" });
      const place = "/context/global/counter";
      expect((await service.send("GET", place, { headers })).json()).toMatchObject({ value: { count: 8 } });

      await global.getByRole("button", { name: "Delete counter" }).click();
      await dialog.getByRole("button", { name: "Delete" }).click();
      // It is also away for a moment when the page reads the keys again.
      await expect.poll(async () => (await service.send("GET", place, { headers })).status).toBe(404);
      await global.waitFor({ state: "detached" });
      expect(view.complaints).toEqual([]);
    });

    test("a value is set for a new key", async () => {
      await using view = await Console.open(service, { username: "admin", path: "/context" });
      const { page } = view;
      await page.getByRole("button", { name: "Set a value" }).click();
      const dialog = page.getByRole("dialog");
      await dialog.getByLabel("Scope").selectOption(hostile);
      await dialog.getByLabel("Key").fill("last");
      await dialog.getByLabel("Value as JSON").fill("[1, 2]");
      await dialog.getByRole("button", { name: "Save" }).click();
      await page.getByRole("region", { name: `Keys of ${hostile}` }).waitFor();
      expect((await service.send("GET", "/context/flow/T/last", { headers })).json()).toMatchObject({ value: [1, 2] });
    });
  });

  test("the settings have the state of the service, and what the user may do", async () => {
    await using view = await Console.open(service, { username: "reader", path: "/settings" });
    const { page } = view;
    const permission = (name: string) =>
      page.getByRole("row").filter({ has: page.getByRole("cell", { name, exact: true }) });
    await permission("flows.read").waitFor();
    expect(await permission("flows.read").textContent()).toMatch(/^flows\.readyes/);
    expect(await permission("flows.write").textContent()).toMatch(/^flows\.writeno/);
    expect(await permission("context.read").textContent()).toMatch(/^context\.readno/);
    const role = page
      .getByRole("row")
      .filter({ has: page.getByRole("cell", { name: "release-manager", exact: true }) });
    await role.getByText("Change the message of a revision").waitFor();
    const { version } = (await service.send("GET", "/settings", { headers })).json() as { version: string };
    await page.getByText(version, { exact: true }).first().waitFor();
    const document = await page.getByRole("link", { name: "/openapi.json" }).getAttribute("href");
    expect(document).toBe(`${service.url}/openapi.json`);
    expect(view.complaints).toEqual([]);
  });
});
