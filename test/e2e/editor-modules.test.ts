import { cp } from "node:fs/promises";
import { request as httpRequest, type IncomingMessage } from "node:http";
import { once } from "node:events";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { missingBrowser, openBrowser } from "./browser.ts";
import { Editor } from "./editor.ts";
import { functionNode, tab } from "./flow-builders.ts";
import { bearer, json } from "./rest.ts";
import { loginTool, startToolService, type ToolService } from "./tools.ts";
import { login, user } from "./users.ts";

// What the part of a module in Node-RED's editor uses: topics, notifications, and routes of its nodes.

let service: ToolService;
let admin: Record<string, string>;
/** The same user at the API. */
let apiAdmin: Record<string, string>;
beforeAll(async () => {
  service = await startToolService({
    prepare: (dataDir) =>
      cp(
        new URL("../fixtures/e2e/node-red-contrib-say", import.meta.url),
        join(dataDir, "modules", "node_modules", "node-red-contrib-say"),
        { recursive: true },
      ),
    config: { nodeRed: { port: 0, editor: true }, adminAuth: { users: [user("admin", "*"), user("reader", "read")] } },
  });
  admin = bearer(await loginTool(service, "admin"));
  apiAdmin = bearer(await login(service, { username: "admin" }));
  const place = { z: "t", x: 100, y: 100 };
  const func = `return Object.assign(msg, JSON.parse(msg.req.query.msg));`;
  const flows = [
    tab("t"),
    { id: "in", type: "http in", ...place, url: "/say", method: "get", wires: [["read"]] },
    functionNode("read", { ...place, func, wires: [["say"]] }),
    { id: "say", type: "say", ...place, wires: [["out"]] },
    { id: "out", type: "http response", ...place, wires: [] },
  ];
  const reply = await service.sendTool("POST", "/flows", {
    headers: { ...admin, ...json },
    body: JSON.stringify(flows),
  });
  if (reply.status !== 204) {
    throw new Error(`the flows were not deployed: ${reply.status} ${reply.body}`);
  }
});
afterAll(() => service?.[Symbol.asyncDispose]());

const say = (message: object) => service.get(`/say?msg=${encodeURIComponent(JSON.stringify(message))}`, apiAdmin);

describe("a redirect of a node's route", () => {
  const redirect = (to: string | undefined, headers: Record<string, string> = {}, method = "GET", status = 302) => {
    const query = to === undefined ? "" : `&to=${encodeURIComponent(to)}`;
    return service.sendTool(method, `/say/redirect?status=${status}${query}`, {
      headers: { ...admin, ...headers, ...(method === "POST" && json) },
      ...(method === "POST" && { body: "{}" }),
    });
  };

  test.each([
    ["/say/done?a=1#b", "/say/done?a=1#b"],
    ["done", "/say/done"],
    ["SELF/say/done", "/say/done"],
    ["/.//evil.example/x", "/evil.example/x"],
    ["https://provider.example/authorize?client=1", "https://provider.example/authorize?client=1"],
  ])("to %s is passed, without cookies", async (to, expected) => {
    const { status, headers } = await redirect(to.replace("SELF", service.toolsUrl));
    expect([status, headers["location"]]).toEqual([302, expected]);
    expect(headers).not.toHaveProperty("set-cookie");
    expect(headers).toMatchObject({ "cache-control": "no-store" });
  });

  test.each([
    undefined,
    "http://provider.example/",
    "//evil.example/",
    "/\\evil.example/",
    "javascript:alert(1)",
    "https://user:pass@provider.example/",
    "http://127.0.0.1:1/",
  ])("to %s is an error", async (to) => {
    const { status, headers, body } = await redirect(to);
    expect([status, headers["location"], JSON.parse(body)]).toEqual([
      502,
      undefined,
      {
        code: "invalid_redirect",
        message:
          "the route of the node redirects to an address that is not permitted: it must be one of this service, or an https URL",
      },
    ]);
  });

  test("to another site is passed for a page, and not for a script, an image or a frame", async () => {
    const to = "https://provider.example/";
    expect((await redirect(to, { "sec-fetch-dest": "document" })).headers["location"]).toBe(to);
    for (const dest of ["empty", "image", "iframe", "script"]) {
      const { status, headers, body } = await redirect(to, { "sec-fetch-dest": dest });
      expect([status, headers["location"], JSON.parse(body)]).toEqual([
        502,
        undefined,
        {
          code: "redirect_elsewhere",
          message: "the route of the node redirects to provider.example: open it as a page of the browser",
        },
      ]);
      expect((await redirect("/say/done", { "sec-fetch-dest": dest })).status).toBe(302);
    }
  });

  test("repeats no request that can change something", async () => {
    expect((await redirect("/say/done", {}, "GET", 308)).status).toBe(308);
    for (const status of [301, 302, 307, 308]) {
      expect((await redirect("/flows", {}, "POST", status)).status).toBe(303);
    }
  });
});

test("a route of a node finds the name by which the client has reached the service", async () => {
  const { host, port } = new URL(service.toolsUrl);
  const where = async (headers: Record<string, string>) =>
    (await service.sendTool("GET", "/say/where", { headers: { ...admin, ...headers } })).json();
  expect(await where({})).toEqual({ hostname: "127.0.0.1", protocol: "http", ip: "127.0.0.1", host });
  expect(
    await where({ host: `localhost:${port}`, "x-forwarded-host": "evil.example", "x-forwarded-proto": "https" }),
  ).toEqual({ hostname: "localhost", protocol: "http", ip: "127.0.0.1", host: `localhost:${port}` });
});

/** Opens an event stream of a node, and resolves with its response. */
async function openStream(headers: Record<string, string>): Promise<IncomingMessage> {
  const request = httpRequest(new URL("/say/stream", service.toolsUrl), { headers });
  request.end();
  const [response] = (await once(request, "response")) as [IncomingMessage];
  response.on("error", () => {});
  return response;
}

describe("an event stream of a node", () => {
  test("begins at once, is passed as it comes, and ends with its token", async () => {
    const token = await loginTool(service, "reader");
    const response = await openStream(bearer(token));
    expect(response.headers).toMatchObject({
      "content-type": "text/event-stream",
      "cache-control": "no-store",
      "content-security-policy": "sandbox; default-src 'none'",
    });
    for (const event of ["one", "two"]) {
      const received = once(response, "data");
      await say({ event });
      expect(String(await received)).toBe(`data: ${event}\n\n`);
    }
    const closed = new Promise((resolve) => void response.once("close", resolve));
    await service.sendTool("POST", "/auth/revoke", {
      headers: { ...bearer(token), ...json },
      body: JSON.stringify({ token }),
    });
    await closed;
  });

  test("leaves connections for other requests", async () => {
    const streams = await Promise.all(Array.from({ length: 8 }, () => openStream(admin)));
    const refused = await openStream(admin);
    expect(refused.statusCode).toBe(429);
    refused.resume();
    expect((await service.sendTool("GET", "/say/where", { headers: admin })).status).toBe(200);
    streams.forEach((stream) => stream.destroy());
    await expect
      .poll(
        async () => {
          const stream = await openStream(admin);
          stream.destroy();
          return stream.statusCode;
        },
        { timeout: 120_000 },
      )
      .toBe(200);
  });
});

describe.skipIf(missingBrowser !== undefined)("in the editor", () => {
  test("a deployment with a message is a revision with it, and the next one has none", async () => {
    await using browser = await openBrowser();
    await using editor = await Editor.open(browser, service.toolsUrl);
    const { page } = editor;
    await editor.login("admin");
    const askWithMessage = async () => {
      await page.locator("#red-ui-header-button-deploy-options").click();
      await page.locator("#deploymenu-item-message").click();
    };
    await askWithMessage();
    await editor.notification("There is nothing to deploy.").waitFor();
    const messageOf = async (rev: string) => {
      const reply = await service.send("GET", `/revisions/${rev}`, { headers: apiAdmin });
      return (reply.json() as { message?: string }).message;
    };

    await editor.drag("inject", 300, 300);
    await askWithMessage();
    const input = page.locator("#flowgate-deploy-message");
    await input.fill("draft");
    await page.locator(".red-ui-notification button", { hasText: "Cancel" }).click();
    await input.waitFor({ state: "detached" });
    await askWithMessage();
    expect(await input.inputValue()).toBe("");
    await input.fill("  für <b>Ärger</b>  ");
    const responded = page.waitForResponse(
      (each) => each.url().endsWith("/flows") && each.request().method() === "POST",
    );
    await input.press("Enter");
    const { rev } = (await (await responded).json()) as { rev: string };
    expect(await messageOf(rev)).toBe("für <b>Ärger</b>");
    await page.locator("#red-ui-header-button-deploy.disabled").waitFor();

    await editor.drag("debug", 300, 400);
    expect(await messageOf((await editor.deploy()).rev)).toBeUndefined();

    // Nor has one that follows a deployment that was not confirmed.
    await editor.drag("mqtt in", 500, 400);
    await askWithMessage();
    await input.fill("not confirmed");
    await input.press("Enter");
    const warning = editor.notification("not properly configured");
    await warning.locator("button", { hasText: "Cancel" }).click();
    await warning.waitFor({ state: "detached" });
    const confirmed = page.waitForResponse(
      (each) => each.url().endsWith("/flows") && each.request().method() === "POST",
    );
    await page.keyboard.press("Control+d");
    await warning.locator("button", { hasText: "Confirm deploy" }).click();
    const last = (await (await confirmed).json()) as { rev: string };
    expect(await messageOf(last.rev)).toBeUndefined();
    expect(editor.complaints.filter((each) => !/40[01] \(/.test(each))).toEqual([]);
  });

  test("a module receives what it has published as data, and its notifications are text", async () => {
    await using browser = await openBrowser();
    await using editor = await Editor.open(browser, service.toolsUrl);
    await editor.login("admin");
    await editor.paletteNode("say").waitFor();
    const html = `<img src=x onerror="window.executed = true">`;
    const all = [
      { topic: "say/preview", data: { id: "say", text: html } },
      { topic: "other/topic", data: 1 },
      { topic: "notification/say", data: { text: `${html} __x__`, x: html } },
      { event: { id: "said", payload: { text: "by an event", type: "success" } } },
      { topic: "notification/runtime-deploy", data: { revision: "forged" } },
    ];
    await say({ published: all });
    await editor.notification("by an event").waitFor();
    await editor.notification(html).waitFor();
    await expect
      .poll(() => editor.page.evaluate("window.said"), { timeout: 120_000 })
      .toEqual([["say/preview", { id: "say", text: html }]]);
    expect(await editor.page.evaluate("window.executed")).toBeUndefined();
    expect(await editor.page.locator(".red-ui-notification img").count()).toBe(0);
    expect(await editor.notification(/forged|updated/).count()).toBe(0);
  });
});
