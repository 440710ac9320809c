import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { pack } from "../modules/npm-registry.ts";
import { nodesOf, paletteTemplateOf } from "../modules/write-modules.ts";
import { type Browser, missingBrowser, openBrowser } from "./browser.ts";
import { deploy, type Deployment } from "./deploy.ts";
import { Editor, toolsUrl } from "./editor.ts";
import { functionNode, type Node, tab } from "./flow-builders.ts";
import { type Installation, installations } from "./installations.ts";
import { bearer, form, json, send } from "./rest.ts";
import { eventually, type Service, startService } from "./service.ts";
import { login, passwordOf, user } from "./users.ts";

if (missingBrowser !== undefined) {
  process.stderr.write(`The tests of Node-RED's editor are skipped: ${missingBrowser}.\n`);
}

const config = {
  adminAuth: { users: [user("admin", "*"), user("viewer", "read")] },
  nodeRed: { port: 0, editor: true },
};

async function readFlows(service: Service, token: string): Promise<{ rev: string; flows: Node[] }> {
  const reply = await service.send("GET", "/flows", { headers: { ...bearer(token), "service-api-version": "v2" } });
  return reply.json() as { rev: string; flows: Node[] };
}

let browser: Browser;
beforeAll(async () => {
  if (missingBrowser === undefined) {
    browser = await openBrowser();
  }
});
afterAll(() => browser?.[Symbol.asyncDispose]());

describe.skipIf(missingBrowser !== undefined).each(installations)("Node-RED's editor %s", (_, open) => {
  let installation: Installation;
  let url: string;
  let token: string;
  beforeAll(async () => {
    installation = await open(config);
    url = toolsUrl(installation.service);
    token = await login(installation.other, { username: "admin" });
  });
  afterAll(() => installation?.[Symbol.asyncDispose]());

  const admin = () => bearer(token);
  const flowsElsewhere = () => readFlows(installation.other, token);
  // Another replica has what the editor has deployed some milliseconds later (docs/scaling.md).
  const find = async (id: string): Promise<Node | undefined> =>
    (await flowsElsewhere()).flows.find((each) => each.id === id);

  /** Deploys as another client, and resolves with the revision once its flows run. */
  async function deployElsewhere(deployment: Deployment, type = "full"): Promise<string> {
    const rev = await deploy(installation.other, deployment, type, admin());
    await eventually(async () => {
      const revision = await installation.other.send("GET", `/revisions/${rev}`, { headers: admin() });
      expect(revision.json()).toMatchObject({ outcome: "running" });
    });
    return rev;
  }

  test("serves a session from the login to the logout", async () => {
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
    await editor.edit(debug, async (dialog) => dialog.locator("#node-input-name").fill("shown"));

    // Each type of deployment.
    const first = await editor.deploy();
    expect(first.type).toBe("full");
    await expect.poll(flowsElsewhere).toMatchObject({ rev: first.rev });
    await expect.poll(() => find(inject)).toMatchObject({ name: "start", wires: [[change]] });
    for (const [name, type] of [
      ["flow", "flows"],
      ["node", "nodes"],
      ["full", "full"],
    ] as const) {
      await editor.chooseDeployment(name);
      await editor.edit(debug, async (dialog) => dialog.locator("#node-input-name").fill(`shown by ${type}`));
      expect(await editor.deploy()).toMatchObject({ type });
      await expect.poll(() => find(debug)).toMatchObject({ name: `shown by ${type}` });
    }

    // Inject and debug. What flows write is text.
    const { rev, flows } = await flowsElsewhere();
    const code = `node.status({ text: "<b>busy</b>", fill: "green", shape: "dot" });
      global.set("kept", "<img src=x onerror=hacked()>");
      return { topic: "<img src=x onerror=hacked()>", payload: "<script>hacked()</script>" };`;
    await deployElsewhere({ rev, flows: flows.map((each) => (each.id === change ? { ...each, func: code } : each)) });
    // Another client's deployment.
    await editor.notification("The flows on the server have been updated").waitFor();
    await page.reload();
    await editor.untilLoaded();
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
    // The wrong password, and what was asked before the login.
    expect(editor.complaints.filter((each) => !/40[01] \(/.test(each))).toEqual([]);
    expect(editor.requests.filter((each) => !/^(?:data|blob):/.test(each) && !each.startsWith(url))).toEqual([]);
  });

  // One session, as to load the editor takes seconds.
  test("keeps credentials, links to the revision that was deployed, shows a conflict, and merges", async () => {
    // The dialog of a function node would load a code editor each time.
    const debug = { type: "debug", z: "T", x: 200, active: false, wires: [] };
    const request = { id: "request", type: "http request", z: "T", x: 500, y: 100, authType: "basic", wires: [[]] };
    const secret = "the first password";
    await deployElsewhere({
      flows: [tab("T"), { ...debug, id: "mine", y: 100 }, { ...debug, id: "theirs", y: 200 }, request],
      credentials: { request: { user: "ada", password: secret } },
    });
    await using editor = await Editor.open(browser, url);
    const texts: string[] = [];
    editor.page.on(
      "response",
      (response) =>
        void response.text().then(
          (text) => texts.push(text),
          () => {},
        ),
    );
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
    await expect.poll(() => find("mine")).toMatchObject({ name: "by the editor" });
    await expect.poll(() => find("theirs")).toMatchObject({ name: "by the API" });

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
    await expect.poll(() => find("mine")).toMatchObject({ name: "once more" });
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
    const { url: api } = installation.service;
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
    const { rev, flows } = await flowsElsewhere();
    const renamed = flows.map((each) => (each.id === id ? { ...each, name } : each));
    return deployElsewhere({ rev, flows: renamed }, "nodes");
  }

  /** As the running node has them. */
  async function credentialsOf(id: string): Promise<unknown> {
    const path = `/credentials/http-request/${id}`;
    const reply = await send(url, "GET", path, { headers: bearer(await toolToken("admin")) });
    return reply.json();
  }

  async function toolToken(username: string): Promise<string> {
    const body = new URLSearchParams({
      client_id: "node-red-admin",
      grant_type: "password",
      scope: "*",
      username,
      password: passwordOf(username),
    });
    const reply = await send(url, "POST", "/auth/token", { headers: form, body: body.toString() });
    return (reply.json() as { access_token: string }).access_token;
  }

  test("shows modules that are added and removed, missing types, subflows, and what was undone", async () => {
    const before = await deployElsewhere({ flows: [tab("T"), functionNode("first", { z: "T", name: "first" })] });
    await using editor = await Editor.open(browser, url);
    await editor.login("admin");

    // A module.
    const tarball = await pack({
      name: "contrib-added",
      version: "1.0.0",
      manifest: { "node-red": { nodes: { all: "nodes.js" } } },
      files: { "nodes.js": nodesOf(["added"]), "nodes.html": paletteTemplateOf("added") },
    });
    await change("POST", "/modules", { tarball: tarball.toString("base64") });
    await editor.paletteNode("added").waitFor();
    const added = await editor.drag("added", 300, 200);
    await editor.deploy();
    await expect.poll(() => find(added)).toMatchObject({ type: "added" });

    // It is removed: the type is missing.
    // From each replica, since the flows would continue on one that has it.
    for (const each of new Set([installation.other, installation.service])) {
      await eventually(() => change("DELETE", "/modules/contrib-added?force=true", undefined, each));
    }
    await editor.paletteNode("added").waitFor({ state: "detached" });
    await editor.notification("missing node types").waitFor();

    // Undone by the API: the editor offers to review the change.
    const { status } = await installation.other.send("POST", "/flows:undo", {
      headers: { ...admin(), ...json },
      body: "{}",
    });
    expect(status).toBe(200);
    await editor.notification("The flows on the server have been updated").waitFor();
    await editor.page.reload();
    await editor.untilLoaded();
    expect(await editor.ids()).toEqual(["first"]);
    expect((await flowsElsewhere()).rev).not.toBe(before);

    // A subflow of the selection.
    await editor.node("first").locator(".red-ui-flow-node").first().click();
    await editor.invoke("core:convert-to-subflow");
    await editor.deploy();
    const types = (await flowsElsewhere()).flows.map(({ type }) => type);
    expect(types.map((type) => type.replace(/:.*/, ":…")).toSorted()).toEqual([
      "function",
      "subflow",
      "subflow:…",
      "tab",
    ]);
  });

  async function change(
    method: string,
    path: string,
    body?: object,
    service: Service = installation.service,
  ): Promise<void> {
    const sent = body === undefined ? {} : { body: JSON.stringify(body) };
    const reply = await service.send(method, path, { headers: { ...admin(), ...json }, ...sent });
    expect({ status: reply.status < 300, body: reply.body }).toMatchObject({ status: true });
  }

  test("a user who may only read can change nothing", async () => {
    await deployElsewhere({ flows: [tab("T"), functionNode("first", { z: "T", name: "first" })] });
    await using editor = await Editor.open(browser, url);
    await editor.login("viewer");
    await editor.page.locator(".red-ui-deploy-button-group.readOnly").waitFor();
    await editor.edit("first", async (dialog) => dialog.locator("#node-input-name").fill("changed"));
    await editor.invoke("core:deploy-flows");
    await editor.notification("You must be logged in to deploy changes").waitFor();
    const viewer = bearer(await toolToken("viewer"));
    const reply = await send(url, "POST", "/flows", { headers: { ...viewer, ...json }, body: "[]" });
    expect(reply.status).toBe(401);
    expect(await find("first")).toMatchObject({ name: "first" });
  });
});

describe.skipIf(missingBrowser !== undefined)("with nodeRed.editor: read-only", () => {
  test.each([
    ["with users", { adminAuth: config.adminAuth }],
    ["without users", {}],
  ])("nothing can be changed, %s", async (_, others) => {
    await using service = await startService({ config: { ...others, nodeRed: { port: 0, editor: "read-only" } } });
    const url = toolsUrl(service);
    await using editor = await Editor.open(browser, url);
    await ("adminAuth" in others ? editor.login("admin") : editor.untilLoaded());
    await editor.page.locator(".red-ui-deploy-button-group.readOnly").waitFor();
    const status = await editor.page
      .evaluate(`$.ajax({ url: "flows", type: "POST", data: "[]", contentType: "application/json" })
      .then(() => 200, ({ status }) => status)`);
    expect(status).toBe(401);
  });
});
