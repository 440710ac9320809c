import { readFile } from "node:fs/promises";
import type { Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type Browser, missingBrowser, openBrowser } from "./browser.ts";
import { startService } from "./service.ts";
import { login, user } from "./users.ts";

if (missingBrowser !== undefined) {
  process.stderr.write(`The tests of the documentation page are skipped: ${missingBrowser}.\n`);
}

type Document = { paths: Record<string, Record<string, { operationId: string }>> };

async function readOperations(): Promise<string[]> {
  const document = JSON.parse(await readFile(new URL("../../openapi.json", import.meta.url), "utf8")) as Document;
  return Object.values(document.paths).flatMap((item) => Object.values(item).map(({ operationId }) => operationId));
}

/** Opens an operation and presses "Try it out". */
async function tryOut(page: Page, tag: string, operationId: string) {
  const operation = page.locator(`#operations-${tag}-${operationId}`);
  await operation.locator(".opblock-summary-control").click();
  await operation.getByRole("button", { name: "Try it out" }).click();
  return {
    operation,
    /** The status and body of the response, as shown on the page. */
    async execute() {
      const clear = operation.getByRole("button", { name: "Clear" });
      if (await clear.isVisible()) {
        await clear.click();
      }
      await operation.getByRole("button", { name: "Execute" }).click();
      const httpResponse = operation.locator(".live-responses-table .response");
      const status = Number.parseInt(await httpResponse.locator(".response-col_status").innerText(), 10);
      const body = httpResponse.locator("h5:text-is('Response body') + div code");
      return { status, body: (await body.count()) === 0 ? "" : (await body.innerText()).trim() };
    },
  };
}

async function authorize(page: Page, token: string): Promise<void> {
  await page.getByRole("button", { name: "Authorize" }).click();
  const bearer = page.locator(".auth-container").filter({ hasText: "http, Bearer" });
  await bearer.locator("input").fill(token);
  await bearer.getByRole("button", { name: "Apply credentials" }).click();
  await bearer.getByRole("button", { name: "Close" }).click();
}

describe.skipIf(missingBrowser !== undefined)("the documentation page", () => {
  let browser: Browser;
  beforeAll(async () => {
    browser = await openBrowser();
  });
  afterAll(() => browser?.[Symbol.asyncDispose]());

  test("shows every operation, without warnings and external requests", async () => {
    await using service = await startService();
    await using tab = await browser.openTab();
    const { page, complaints, requests } = tab;
    await page.goto(`${service.url}/docs`);
    await page.locator(".opblock").first().waitFor();
    const operations = await readOperations();
    expect(await page.locator(".opblock").count()).toBe(operations.length);
    for (const operationId of operations) {
      const operation = page.locator(`[id$="-${operationId}"].opblock`);
      await operation.locator(".opblock-summary-control").click();
      await operation.locator(".responses-inner").waitFor();
      expect(await operation.locator(".opblock-body").innerText()).toContain("Responses");
    }
    expect(await page.locator(".errors-wrapper").count()).toBe(0);
    expect(complaints).toEqual([]);
    expect(requests.length).toBeGreaterThan(3);
    expect(requests.filter((url) => !url.startsWith(`${service.url}/`) && !url.startsWith("data:"))).toEqual([]);
  });

  test("supports authorizing, and trying GET /flows and POST /flows", async () => {
    await using service = await startService({ config: { adminAuth: { users: [user("admin", "*")] } } });
    const token = await login(service, { username: "admin" });
    await using tab = await browser.openTab();
    const { page, complaints, requests } = tab;
    await page.goto(`${service.url}/docs`);
    await page.locator(".opblock").first().waitFor();

    const read = await tryOut(page, "FlowsService", "FlowsService_GetFlows");
    expect((await read.execute()).status).toBe(401);
    await authorize(page, token);
    expect(await read.execute()).toMatchObject({ status: 200, body: "[]" });

    const write = await tryOut(page, "FlowsService", "FlowsService_SetFlows");
    const nodes = [{ id: "a", type: "tab", label: "from the page" }];
    await write.operation.locator("textarea.body-param__text").fill(JSON.stringify(nodes));
    expect((await write.execute()).status).toBe(204);
    expect((await service.send("GET", "/flows", { headers: { authorization: `Bearer ${token}` } })).json()).toEqual(
      nodes,
    );

    await read.operation.locator("select").first().selectOption("v2");
    const httpResponse = await read.execute();
    expect(httpResponse.status).toBe(200);
    expect(JSON.parse(httpResponse.body)).toEqual({ flows: nodes, rev: expect.stringMatching(/./) });

    // The browser itself logs the expected 401.
    expect(complaints).toEqual([expect.stringContaining("401")]);
    expect(requests.filter((url) => !url.startsWith(`${service.url}/`) && !url.startsWith("data:"))).toEqual([]);
  });
});
