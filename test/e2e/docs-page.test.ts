import { readFile } from "node:fs/promises";
import type { Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type Browser, missingBrowser, openBrowser } from "./browser.ts";
import { bearer, json, v2 } from "./rest.ts";
import { type Service, startService, withoutRuntime } from "./service.ts";
import { login, passwordOf, user } from "./users.ts";

if (missingBrowser !== undefined) {
  process.stderr.write(`The tests of the documentation page are skipped: ${missingBrowser}.\n`);
}

type Operation = {
  operationId: string;
  parameters?: { in: string }[];
  requestBody?: { content: object };
  responses: Record<string, { content?: object }>;
};

type Document = { paths: Record<string, Record<string, Operation>>; components: { schemas: Record<string, object> } };

async function readDocument(): Promise<Document> {
  return JSON.parse(await readFile(new URL("../../openapi.json", import.meta.url), "utf8")) as Document;
}

/** What decides how the parts of an operation are shown: where it has parameters, and the media types of its bodies. */
function partsOf({ parameters = [], requestBody, responses }: Operation): string[] {
  const mediaTypes = Object.values(responses).flatMap(({ content = {} }) => Object.keys(content));
  return [
    `parameters in ${[...new Set(parameters.map(({ in: place }) => place))].toSorted().join()}`,
    `request as ${Object.keys(requestBody?.content ?? {}).join()}`,
    `response as ${[...new Set(mediaTypes)].toSorted().join()}`,
  ];
}

/** Operations that have, together with the first ones, each part that any operation has. */
function completeParts(first: readonly Operation[], operations: readonly Operation[]): Operation[] {
  const seen = new Set(first.flatMap(partsOf));
  const countNew = (operation: Operation): number => partsOf(operation).filter((part) => !seen.has(part)).length;
  const chosen: Operation[] = [];
  for (;;) {
    const [best] = operations.toSorted((one, other) => countNew(other) - countNew(one));
    if (best === undefined || countNew(best) === 0) {
      return chosen;
    }
    chosen.push(best);
    partsOf(best).forEach((part) => seen.add(part));
  }
}

/** The document with some operations, and the schemas that these refer to. */
function reduceTo(operationIds: readonly string[], { paths, components, ...others }: Document): Document {
  const items = Object.entries(paths).map(([path, item]) => {
    const kept = Object.entries(item).filter(([, { operationId }]) => operationIds.includes(operationId));
    return [path, Object.fromEntries(kept)] as const;
  });
  const keptPaths = Object.fromEntries(items.filter(([, item]) => Object.keys(item).length > 0));
  const schemas: Record<string, object> = {};
  const keep = (value: object): void => {
    for (const [, name = ""] of JSON.stringify(value).matchAll(/"#\/components\/schemas\/([^"]+)"/g)) {
      const schema = components.schemas[name];
      if (schema !== undefined && !(name in schemas)) {
        schemas[name] = schema;
        keep(schema);
      }
    }
  };
  keep(keptPaths);
  return { ...others, paths: keptPaths, components: { ...components, schemas } };
}

/** Opens an operation without the mouse, whose movements take seconds on a long page. */
async function openOperation(page: Page, operationId: string) {
  const operation = page.locator(`[id$="-${operationId}"].opblock`);
  await operation.locator(".opblock-summary-control").dispatchEvent("click");
  await operation.locator(".responses-inner").waitFor();
  return operation;
}

/** Opens operations without the mouse, and closes them when their responses are shown. */
async function showOperations(page: Page, operationIds: readonly string[]): Promise<void> {
  await toggleOperations(page, operationIds);
  for (const operationId of operationIds) {
    await page.locator(`[id$="-${operationId}"].opblock .responses-inner`).waitFor({ state: "attached" });
  }
  await toggleOperations(page, operationIds);
}

/** Opens those that are closed, and closes the others. */
function toggleOperations(page: Page, operationIds: readonly string[]): Promise<void> {
  return page.evaluate(`for (const id of ${JSON.stringify(operationIds)}) {
    document.querySelector('[id$="-' + id + '"].opblock .opblock-summary-control').click();
  }`);
}

/** Opens an operation from the contents and presses "Try it out". */
async function tryOut(page: Page, tag: string, operationId: string) {
  const operation = page.locator(`#operations-${tag}-${operationId}`);
  await page.locator(`#contents a[href="#/${tag}/${operationId}"]`).click();
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

/** Logs in as a user; returns the error that is shown, if any. */
async function authorize(page: Page, username: string, password = passwordOf(username)): Promise<string | undefined> {
  await page.locator(".scheme-container").getByRole("button", { name: "Authorize" }).click();
  const dialog = page.locator(".auth-container").filter({ hasText: "OAuth2, password" });
  await dialog.getByLabel("username:").fill(username);
  await dialog.getByLabel("password:", { exact: true }).fill(password);
  await dialog.getByRole("button", { name: "Apply given OAuth2 credentials" }).click();
  const outcome = dialog.locator(".errors, h6:text-is('Authorized')");
  const text = await outcome.innerText();
  await dialog.getByRole("button", { name: "Close" }).click();
  return text === "Authorized" ? undefined : text;
}

/** What is wider than the element that it is in: its class, and by how many pixels. */
function findOverflow(page: Page): Promise<string[]> {
  return page.evaluate(`[document.documentElement, ...document.querySelectorAll(".opblock, .modal-ux")]
    .filter(({ scrollWidth, clientWidth }) => scrollWidth > clientWidth)
    .map(({ className, scrollWidth, clientWidth }) => className + ": " + (scrollWidth - clientWidth))`);
}

/** The brightness of the page and of its text, from 0 (black) to 255. */
async function readBrightness(page: Page): Promise<{ page: number; text: number }> {
  const colors = await page.evaluate<string[]>(
    "(({ backgroundColor, color }) => [backgroundColor, color])(getComputedStyle(document.body))",
  );
  const [background = 0, text = 0] = colors.map((color) => Math.max(...(color.match(/\d+/g) ?? []).map(Number)));
  return { page: background, text };
}

const config = { ...withoutRuntime };

describe.skipIf(missingBrowser !== undefined)("the documentation page", () => {
  let browser: Browser;
  /** Open to all. */
  let service: Service;
  beforeAll(async () => {
    [browser, service] = await Promise.all([openBrowser(), startService({ config })]);
  });
  afterAll(() => Promise.all([browser?.[Symbol.asyncDispose](), service?.[Symbol.asyncDispose]()]));

  // One page, as Swagger UI takes seconds to load.
  test("fits on a phone, and shows all kinds of parameters and bodies, without warnings and external requests", async () => {
    await using tab = await browser.openTab();
    const { page, complaints, requests } = tab;
    await page.setViewportSize({ width: 390, height: 844 });
    await page.goto(`${service.url}/docs`);
    await page.locator(".opblock").first().waitFor();
    const operations = Object.values((await readDocument()).paths).flatMap((item) => Object.values(item));
    expect(await page.locator("#contents a").count()).toBe(operations.length);

    const tried = ["AuthService_IssueToken", "FlowsService_SetFlows", "AuditService_ListAuditEntries"];
    for (const operationId of tried) {
      const operation = await openOperation(page, operationId);
      await operation.getByRole("button", { name: "Try it out" }).dispatchEvent("click");
      await operation.getByRole("button", { name: "Cancel" }).waitFor();
    }
    await page.locator(".scheme-container").getByRole("button", { name: "Authorize" }).click();
    await page.getByLabel("username:").waitFor();
    for (const { width, expected } of [
      { width: 390, expected: [] },
      { width: 120, expected: expect.arrayContaining([expect.stringContaining("opblock")]) as unknown },
    ]) {
      await page.setViewportSize({ width, height: 844 });
      expect(await findOverflow(page)).toEqual(expected);
    }
    await page.locator(".auth-container").getByRole("button", { name: "Close" }).first().click();
    await page.setViewportSize({ width: 1280, height: 1000 });
    const light = await readBrightness(page);
    await page.emulateMedia({ colorScheme: "dark" });
    await page.locator("html.dark-mode").waitFor();
    const dark = await readBrightness(page);
    expect([light.page > 200, light.text < 60, dark.page < 60, dark.text > 200]).toEqual([true, true, true, true]);
    await toggleOperations(page, tried);

    expect(new Set(operations.flatMap(partsOf)).size).toBeGreaterThan(10);
    const first = operations.filter(({ operationId }) => tried.includes(operationId));
    const others = completeParts(first, operations).map(({ operationId }) => operationId);
    await showOperations(page, others);
    expect(await page.locator(".errors-wrapper").count()).toBe(0);
    expect(complaints).toEqual([]);
    expect(requests.length).toBeGreaterThan(3);
    expect(requests.filter((url) => !url.startsWith(`${service.url}/`) && !url.startsWith("data:"))).toEqual([]);
  });

  test("logs in, calls operations with the token, and changes bodies with the version", async () => {
    await using service = await startService({ config: { ...config, adminAuth: { users: [user("admin", "*")] } } });
    await using tab = await browser.openTab();
    const { page, complaints, requests } = tab;
    // With all operations, Swagger UI takes longer.
    const shown = ["FlowsService_GetFlows", "FlowsService_SetFlows", "TokensService_RevokeTokens"];
    const reduced = reduceTo(shown, await readDocument());
    await page.route("**/openapi.json", async (route) =>
      route.fulfill({ response: await route.fetch(), json: reduced }),
    );
    await page.goto(`${service.url}/docs`);
    await page.locator(".opblock").first().waitFor();

    const read = await tryOut(page, "FlowsService", "FlowsService_GetFlows");
    expect((await read.execute()).status).toBe(401);
    expect(await authorize(page, "admin", "wrong")).toContain("invalid_grant");
    expect(await authorize(page, "admin")).toBeUndefined();
    expect(await read.execute()).toMatchObject({ status: 200, body: "[]" });

    const token = await login(service, { username: "admin" });
    const active = async () => (await service.send("GET", "/flows", { headers: bearer(token) })).json();
    const precious = [{ id: "p", type: "tab", label: "precious" }];
    const { rev } = (
      await service.send("POST", "/flows", {
        headers: { ...bearer(token), ...json, ...v2 },
        body: JSON.stringify({ flows: precious }),
      })
    ).json() as { rev: string };
    const questions: string[] = [];
    let isConfirming = false;
    page.on("dialog", (dialog) => {
      questions.push(dialog.message());
      void (isConfirming ? dialog.accept() : dialog.dismiss());
    });

    // What can change something is not sent without a confirmation.
    const revoke = await tryOut(page, "TokensService", "TokensService_RevokeTokens");
    await revoke.operation.getByRole("button", { name: "Execute" }).click();
    expect(questions.splice(0)).toEqual([
      expect.stringMatching(/^POST \/tokens:revoke can change data or settings of 127\.0\.0\.1:/),
    ]);
    expect(requests.filter((url) => url.endsWith("/tokens:revoke"))).toEqual([]);

    // What is active is filled in.
    const write = await tryOut(page, "FlowsService", "FlowsService_SetFlows");
    const body = write.operation.locator("textarea.body-param__text");
    const version = write.operation.locator("select").first();
    const example = write.operation.locator(".opblock-section-request-body .examples-select-element");
    const readBody = async () => JSON.parse(await body.inputValue()) as unknown;
    await expect.poll(() => body.inputValue()).toContain("precious");
    expect(await readBody()).toEqual({ flows: precious, rev });
    expect(await version.inputValue()).toBe("v2");
    expect(await write.operation.locator("select").nth(1).inputValue()).toBe("nodes");
    const sent = requests.length;
    await write.operation.getByRole("button", { name: "Execute" }).click();
    expect(questions).toEqual([expect.stringMatching(/^POST \/flows can change the flows that run on 127\.0\.0\.1:/)]);
    isConfirming = true;
    expect((await write.execute()).status).toBe(200);
    expect(requests.length).toBe(sent + 1);
    expect(questions).toHaveLength(2);
    expect(await active()).toEqual(precious);
    // It is that of a revision which is not active any more.
    expect((await write.execute()).status).toBe(409);

    await example.selectOption("v1");
    await expect.poll(() => version.inputValue()).toBe("v1");
    const v1 = await readBody();
    expect(v1).toEqual(expect.arrayContaining([expect.objectContaining({ type: "tab" })]));
    await version.selectOption("v2");
    await expect.poll(readBody).toMatchObject({ flows: v1 });
    await example.selectOption("v1");
    await expect.poll(() => version.inputValue()).toBe("v1");
    expect(await readBody()).toEqual(v1);
    expect((await write.execute()).status).toBe(204);
    expect(await active()).toEqual(v1);

    const edited = JSON.stringify({ flows: [{ id: "a", type: "tab", label: "from the page" }] });
    await body.fill(edited);
    await version.selectOption("v2");
    expect(await write.execute()).toMatchObject({ status: 200, body: expect.stringContaining("rev") });
    expect(await body.inputValue()).toBe(edited);

    // The browser itself logs the expected errors.
    expect(complaints).toEqual(["401", "400", "409"].map((status): unknown => expect.stringContaining(status)));
    expect(requests.filter((url) => !url.startsWith(`${service.url}/`) && !url.startsWith("data:"))).toEqual([]);
  });
});
