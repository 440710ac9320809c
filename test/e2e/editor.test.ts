import { once } from "node:events";
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { WebSocket } from "ws";
import { pack } from "../../packages/runtime/test/modules/npm-registry.ts";
import { nodesOf, paletteTemplateOf } from "../../packages/runtime/test/modules/write-modules.ts";
import { createDatabase } from "../postgres/postgres.ts";
import { type Browser, missingBrowser, openBrowser } from "./browser.ts";
import { deploy, type Deployment, readRuntime } from "./deploy.ts";
import { Editor } from "./editor.ts";
import { functionNode, type Node, tab } from "./flow-builders.ts";
import { bearer, json } from "./rest.ts";
import { eventually, type Service } from "./service.ts";
import { loginTool, startToolService, type ToolService } from "./tools.ts";
import { login, user } from "./users.ts";

if (missingBrowser !== undefined) {
  process.stderr.write(`The tests of Node-RED's editor are skipped: ${missingBrowser}.\n`);
}

const config = {
  adminAuth: { users: [user("admin", "*"), user("viewer", "read")] },
  nodeRed: { port: 0, editor: true },
};

// No test is about the runtime process.
const runtime = { freshProcess: "never" };

/** A client of the API, as an administrator. */
class Admin {
  readonly #service: Service;
  readonly #headers: Readonly<Record<string, string>>;

  constructor(service: Service, token: string) {
    this.#service = service;
    this.#headers = { ...bearer(token), ...json };
  }

  static async login(service: Service): Promise<Admin> {
    return new Admin(service, await login(service, { username: "admin" }));
  }

  async flows(): Promise<{ rev: string; flows: Node[] }> {
    const headers = { ...this.#headers, "service-api-version": "v2" };
    return (await this.#service.send("GET", "/flows", { headers })).json() as { rev: string; flows: Node[] };
  }

  async find(id: string): Promise<Node | undefined> {
    return (await this.flows()).flows.find((each) => each.id === id);
  }

  /** Resolves with the revision once its flows run. */
  async deploy(deployment: Deployment, type = "full"): Promise<string> {
    const rev = await deploy(this.#service, deployment, type, this.#headers);
    await this.untilRunning(rev);
    return rev;
  }

  async untilRunning(rev: string): Promise<void> {
    await eventually(async () => {
      const reply = await this.#service.send("GET", `/revisions/${rev}`, { headers: this.#headers });
      if ((reply.json() as { outcome?: string }).outcome !== "running") {
        throw new Error(`its flows do not run: ${reply.body}`);
      }
    });
  }

  async change(method: string, path: string, body?: object): Promise<void> {
    const sent = body === undefined ? {} : { body: JSON.stringify(body) };
    const reply = await this.#service.send(method, path, { headers: this.#headers, ...sent });
    if (reply.status >= 300) {
      throw new Error(`${method} ${path} was answered ${reply.status}: ${reply.body}`);
    }
  }
}

let browser: Browser;
beforeAll(async () => {
  if (missingBrowser === undefined) {
    browser = await openBrowser();
  }
});
afterAll(() => browser?.[Symbol.asyncDispose]());

describe.skipIf(missingBrowser !== undefined)("Node-RED's editor with two replicas", () => {
  const stack = new AsyncDisposableStack();
  let runner: ToolService;
  let standby: ToolService;
  /** At the other replica, which has what the editor has deployed some milliseconds later (docs/scaling.md). */
  let elsewhere: Admin;
  beforeAll(async () => {
    const { url: store } = stack.use(await createDatabase());
    const credentialSecret = "a secret that all replicas share";
    const shared = { ...config, store, credentialSecret, runtime: { ...runtime, mode: "one" } };
    runner = stack.use(await startToolService({ config: shared }));
    // It is on standby, since the first one is ready.
    standby = stack.use(await startToolService({ config: shared }));
    elsewhere = await Admin.login(standby);
  });
  afterAll(() => stack.disposeAsync());

  test("serves a session from the login to the logout, and one of a user who may only read", async () => {
    const url = runner.toolsUrl;
    await using editor = await Editor.open(browser, url);
    const { page } = editor;

    // Login, wrong and right.
    await editor.submitLogin("admin", "wrong");
    await page.locator("#node-dialog-login-failed").waitFor();
    await editor.login("admin");

    // Drag, wire, configure.
    const inject = await editor.drag("inject", 150, 100);
    const change = await editor.drag("function", 350, 100);
    const debug = await editor.drag("debug", 550, 100);
    await editor.wire(inject, change);
    await editor.wire(change, debug);
    await editor.edit(inject, async (dialog) => dialog.locator("#node-input-name").fill("start"));
    await editor.edit(change, async (dialog) => dialog.locator("#node-input-name").fill("changed"));
    await editor.edit(debug, async (dialog) => dialog.locator("#node-input-name").fill("shown"));

    // Each type of deployment.
    const first = await editor.deploy();
    expect(first.type).toBe("full");
    await expect.poll(() => elsewhere.flows()).toMatchObject({ rev: first.rev });
    await expect.poll(() => elsewhere.find(inject)).toMatchObject({ name: "start", wires: [[change]] });
    for (const [name, type] of [
      ["flow", "flows"],
      ["node", "nodes"],
      ["full", "full"],
    ] as const) {
      await editor.chooseDeployment(name);
      await editor.edit(debug, async (dialog) => dialog.locator("#node-input-name").fill(`shown by ${type}`));
      expect(await editor.deploy()).toMatchObject({ type });
      await expect.poll(() => elsewhere.find(debug)).toMatchObject({ name: `shown by ${type}` });
    }

    // Inject and debug. What flows write is text.
    const { rev, flows } = await elsewhere.flows();
    const code = `node.status({ text: "<b>busy</b>", fill: "green", shape: "dot" });
      global.set("kept", "<img src=x onerror=hacked()>");
      return { topic: "<img src=x onerror=hacked()>", payload: "<script>hacked()</script>" };`;
    await elsewhere.deploy({ rev, flows: flows.map((each) => (each.id === change ? { ...each, func: code } : each)) });
    // Another client's deployment.
    await editor.notification("The flows on the server have been updated").waitFor();
    await editor.showSidebar("debug");
    await editor.inject(inject);
    await expect
      .poll(() => editor.debugMessages())
      .toEqual([expect.stringContaining("<script>hacked()</script>") as string]);
    await expect
      .poll(() => editor.node(change).locator(".red-ui-flow-node-status-label").textContent())
      .toBe("<b>busy</b>");

    // Context.
    await editor.showSidebar("context");
    const section = page.locator(
      ".red-ui-sidebar-context-stack .red-ui-palette-category, .red-ui-sidebar-context-stack .red-ui-editor-category",
    );
    await section.filter({ hasText: "Global" }).locator("button").first().click();
    await page.locator(".red-ui-sidebar-context-property", { hasText: "kept" }).waitFor();

    expect(await page.evaluate("typeof hacked")).toBe("undefined");
    await editor.logout();

    await editor.login("viewer");
    await page.locator(".red-ui-deploy-button-group.readOnly").waitFor();
    await editor.edit(inject, async (dialog) => dialog.locator("#node-input-name").fill("changed by the viewer"));
    await editor.invoke("core:deploy-flows");
    await editor.notification("You must be logged in to deploy changes").waitFor();
    const viewer = bearer(await loginTool(runner, "viewer"));
    const refused = await runner.sendTool("POST", "/flows", { headers: { ...viewer, ...json }, body: "[]" });
    expect(refused.status).toBe(401);
    expect(await elsewhere.find(inject)).toMatchObject({ name: "start" });
    // The wrong password, and what was asked before the login.
    expect(editor.complaints.filter((each) => !/40[01] \(/.test(each))).toEqual([]);
    expect(editor.requests.filter((each) => !/^(?:data|blob):/.test(each) && !each.startsWith(url))).toEqual([]);
  });

  // One session, as to load the editor takes seconds.
  test("keeps credentials, links to the revision that was deployed, shows a conflict, and merges", async () => {
    const debug = { type: "debug", z: "T", x: 200, active: false, wires: [] };
    const request = { id: "request", type: "http request", z: "T", x: 500, y: 100, authType: "basic", wires: [[]] };
    const secret = "the first password";
    await elsewhere.deploy({
      flows: [tab("T"), { ...debug, id: "mine", y: 100 }, { ...debug, id: "theirs", y: 200 }, request],
      credentials: { request: { user: "ada", password: secret } },
    });
    await using editor = await Editor.open(browser, runner.toolsUrl);
    const texts: string[] = [];
    editor.page.on("response", (response) => {
      if (["document", "fetch", "xhr"].includes(response.request().resourceType())) {
        response.text().then(
          (text) => texts.push(text),
          () => {},
        );
      }
    });
    await editor.login("admin");
    await changeCredentials(editor);

    await editor.edit("mine", async (dialog) => dialog.locator("#node-input-name").fill("first"));
    // It adds the properties that the nodes lack.
    await expectLink(editor, (await editor.deploy()).rev);
    await editor.edit("mine", async (dialog) => dialog.locator("#node-input-name").fill("by the editor"));
    const second = await rename("theirs", "by the API");

    const response = editor.page.waitForResponse((each) => each.url().endsWith("/flows") && each.status() === 409);
    await editor.deployButton.click();
    expect(((await (await response).json()) as { code: string }).code).toBe("version_mismatch");
    await editor.page.locator("#red-ui-deploy-dialog-confirm-deploy-merge:not(.disabled)").click();
    const merged = await editor.deploy();
    expect(merged.rev).not.toBe(second);
    await expect.poll(() => elsewhere.find("mine")).toMatchObject({ name: "by the editor" });
    await expect.poll(() => elsewhere.find("theirs")).toMatchObject({ name: "by the API" });

    // The same node: there is nothing to merge without a choice.
    await editor.edit("mine", async (dialog) => dialog.locator("#node-input-name").fill("once more"));
    await rename("mine", "by the API");
    await editor.deployButton.click();
    await editor.page.locator("#red-ui-deploy-dialog-confirm-deploy-review:not(.disabled)").waitFor();
    await expect.poll(() => editor.page.locator("#red-ui-deploy-dialog-confirm-deploy-merge.disabled").count()).toBe(1);
    // Not the response to the editor's GET, which it sends to show the differences.
    const overwritten = editor.page.waitForResponse(
      (each) => each.url().endsWith("/flows") && each.request().method() === "POST" && each.status() === 200,
    );
    await editor.page.locator("#red-ui-deploy-dialog-confirm-deploy-overwrite").click();
    await overwritten;
    await expect.poll(() => elsewhere.find("mine")).toMatchObject({ name: "once more" });
    expect(texts.some((text) => text.includes("has_password"))).toBe(true);
    expect(texts.filter((text) => text.includes(secret))).toEqual([]);
  });

  /** Keeps, changes and removes the password of the request. */
  async function changeCredentials(editor: Editor): Promise<void> {
    const password = editor.page.locator("#node-input-password");
    // The dialog receives the state of credentials after it is open.
    const untilShown = async (): Promise<void> => {
      await expect.poll(() => password.inputValue()).toBe("__PWRD__");
    };

    await editor.edit("request", async (dialog) => {
      await untilShown();
      expect(await dialog.locator("#node-input-user").inputValue()).toBe("ada");
      await dialog.locator("#node-input-name").fill("kept");
    });
    await editor.deploy();
    expect(await credentialsOf("request")).toEqual({ user: "ada", has_password: true });

    await editor.edit("request", async () => {
      await untilShown();
      await password.fill("another password");
    });
    await editor.deploy();
    expect(await credentialsOf("request")).toEqual({ user: "ada", has_password: true });

    await editor.edit("request", async () => {
      await untilShown();
      await password.fill("");
    });
    await editor.deploy();
    expect(await credentialsOf("request")).toEqual({ user: "ada", has_password: false });
  }

  /** The page of the revision in the console, which asks for a sign-in of its own. */
  async function expectLink(editor: Editor, rev: string): Promise<void> {
    const { url: api } = runner;
    const link = editor.notification("is running.").getByRole("link", { name: rev.slice(0, 8) });
    await link.waitFor();
    expect(await link.getAttribute("href")).toBe(`${api}/console/history/${encodeURIComponent(rev)}`);
    const [opened] = await Promise.all([editor.page.waitForEvent("popup"), link.click()]);
    await opened.waitForURL((each) => each.origin === new URL(api).origin);
    expect(await opened.evaluate("window.opener")).toBeNull();
    await opened.close();
  }

  /** By the API. */
  async function rename(id: string, name: string): Promise<string> {
    const { rev, flows } = await elsewhere.flows();
    const renamed = flows.map((each) => (each.id === id ? { ...each, name } : each));
    return elsewhere.deploy({ rev, flows: renamed }, "nodes");
  }

  /** As the running node has them. */
  async function credentialsOf(id: string): Promise<unknown> {
    const headers = bearer(await loginTool(runner, "admin"));
    return (await runner.sendTool("GET", `/credentials/http-request/${id}`, { headers })).json();
  }

  test("its files are compressed before someone asks for them", async () => {
    const get = (encoding: string, more = {}) =>
      runner.sendTool("GET", "/red/keymap.json", { headers: { "accept-encoding": encoding, ...more } });
    const { headers, body } = await get("identity");
    expect(headers).not.toHaveProperty("content-encoding");
    expect(headers.vary).toBe("Accept-Encoding");
    const [version = ""] = await readdir(join(runner.dataDir, "editor"));
    const count = async () => (await readdir(join(runner.dataDir, "editor", version))).length;
    await expect.poll(count, { timeout: 120_000 }).toBeGreaterThan(190);
    const brotli = await get("br");
    expect(brotli.headers).toMatchObject({ "content-encoding": "br", vary: "Accept-Encoding", etag: headers.etag });
    const kept = await get("br", { "if-none-match": headers.etag });
    expect([kept.status, kept.body, kept.headers.vary]).toEqual([304, "", "Accept-Encoding"]);
    expect((await get("br;q=0, gzip;q=0")).headers).not.toHaveProperty("content-encoding");
    expect(Number(brotli.headers["content-length"])).toBeLessThan(body.length / 2);
    // For others, by the first request.
    await eventually(async () => expect((await get("gzip")).headers["content-encoding"]).toBe("gzip"));
  });

  test("on standby, it deploys, and shows what happens on the replica that runs the flows", async () => {
    const code = { z: "T", initialize: `setInterval(() => node.status({ text: "runs" }), 20)` };
    const flows = [tab("T"), functionNode("f", code)];
    await elsewhere.deploy({ flows });
    const url = standby.toolsUrl;
    const token = await loginTool(standby, "admin");
    const headers = { ...bearer(token), ...json };

    const socket = new WebSocket(`${url.replace("http", "ws")}/comms`, { headers: { origin: url } });
    const { promise: shown, resolve } = Promise.withResolvers<void>();
    socket.on("message", (data: Buffer) => {
      if (data.toString().includes(`{"topic":"status/f","data":{"text":"runs"}}`)) {
        resolve();
      }
    });
    await once(socket, "open");
    socket.send(JSON.stringify({ auth: token }));
    socket.send(JSON.stringify({ subscribe: "status/#" }));
    await shown;
    socket.terminate();

    // What only the runtime process knows is refused, and names the replica that runs it.
    const refused = await standby.sendTool("POST", "/inject/f", { headers, body: "{}" });
    expect(refused.json()).toMatchObject({ code: "no_runtime" });
    expect(refused.body).toContain(String(runner.port));

    expect(await readRuntime(standby, bearer(await login(standby, {})))).toMatchObject({ state: "standby" });
    const reply = await standby.sendTool("POST", "/flows", {
      headers: { ...headers, "node-red-api-version": "v2" },
      body: JSON.stringify({ flows: [...flows, functionNode("deployed here", { z: "T" })] }),
    });
    const { rev } = reply.json() as { rev: string };
    const there = await Admin.login(runner);
    await there.untilRunning(rev);
    expect(await there.find("deployed here")).toMatchObject({ z: "T" });
  });
});

describe.skipIf(missingBrowser !== undefined)("Node-RED's editor", () => {
  test("shows modules that are added and removed, missing types, subflows, and what was undone", async () => {
    await using service = await startToolService({ config: { ...config, runtime } });
    const elsewhere = await Admin.login(service);
    const before = await elsewhere.deploy({ flows: [tab("T"), functionNode("first", { z: "T", name: "first" })] });
    await using editor = await Editor.open(browser, service.toolsUrl);
    await editor.login("admin");

    // A module.
    const tarball = await pack({
      name: "contrib-added",
      version: "1.0.0",
      manifest: { "node-red": { nodes: { all: "nodes.js" } } },
      files: { "nodes.js": nodesOf(["added"]), "nodes.html": paletteTemplateOf("added") },
    });
    await elsewhere.change("POST", "/modules", { tarball: tarball.toString("base64") });
    await editor.paletteNode("added").waitFor();
    const added = await editor.drag("added", 300, 200);
    await editor.deploy();
    await expect.poll(() => elsewhere.find(added)).toMatchObject({ type: "added" });

    // It is removed: the type is missing.
    await eventually(() => elsewhere.change("DELETE", "/modules/contrib-added?force=true"));
    await editor.paletteNode("added").waitFor({ state: "detached" });
    await editor.notification("missing node types").waitFor();

    // Undone by the API: the editor offers to review the change.
    await elsewhere.change("POST", "/flows:undo", {});
    await editor.notification("The flows on the server have been updated").waitFor();
    await editor.page.reload();
    await editor.untilLoaded();
    expect(await editor.ids()).toEqual(["first"]);
    expect((await elsewhere.flows()).rev).not.toBe(before);

    // A subflow of the selection.
    await editor.node("first").locator(".red-ui-flow-node").first().click();
    await editor.invoke("core:convert-to-subflow");
    await editor.deploy();
    const types = (await elsewhere.flows()).flows.map(({ type }) => type);
    expect(types.map((type) => type.replace(/:.*/, ":…")).toSorted()).toEqual([
      "function",
      "subflow",
      "subflow:…",
      "tab",
    ]);
  });

  test("with nodeRed.editor: read-only, nothing can be changed, and the code editor shows functions", async () => {
    const readOnly = { ...config, runtime, nodeRed: { port: 0, editor: "read-only" } };
    await using service = await startToolService({ config: readOnly });
    const elsewhere = await Admin.login(service);
    await elsewhere.deploy({ flows: [tab("T"), functionNode("first", { z: "T", func: "return { shown: true };" })] });
    await using editor = await Editor.open(browser, service.toolsUrl, { codeEditor: true });
    await editor.login("admin");
    await editor.page.locator(".red-ui-deploy-button-group.readOnly").waitFor();
    await editor.edit("first", async (dialog) => {
      await dialog.locator(".monaco-editor .view-line", { hasText: "shown: true" }).waitFor();
      await expect.poll(() => editor.requests).toContainEqual(expect.stringContaining("/ts.worker.js"));
      await dialog.locator("#node-input-name").fill("changed");
      // Later, it may complain that the dialog was closed before it was done.
      expect(editor.complaints.filter((each) => !/401 \(/.test(each))).toEqual([]);
    });
    const status = await editor.page
      .evaluate(`$.ajax({ url: "flows", type: "POST", data: "[]", contentType: "application/json" })
      .then(() => 200, ({ status }) => status)`);
    expect(status).toBe(401);
  });
});
