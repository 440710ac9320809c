import { mkdtempDisposable, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createAuthority, issueServer } from "../certificates.ts";
import { pack } from "../../packages/runtime/test/modules/npm-registry.ts";
import { packagedSubflow } from "../../packages/runtime/test/modules/write-modules.ts";
import { deploy } from "./deploy.ts";
import { endpoint, installReporter, reporter, tab } from "./flow-builders.ts";
import { bearer, form, json, type Reply } from "./rest.ts";
import { eventually, startService, withoutRuntime } from "./service.ts";
import { loginTool, startToolService, type ToolService } from "./tools.ts";
import { login, tokenParameters, user } from "./users.ts";

const apiV2 = { "node-red-api-version": "v2" };

function codeOf({ body }: Reply): unknown {
  return (JSON.parse(body) as { code?: unknown }).code;
}

describe("a service with users", () => {
  let service: ToolService;
  let admin: Record<string, string>;
  let reader: Record<string, string>;
  beforeAll(async () => {
    service = await startToolService({
      prepare: installReporter,
      config: {
        runtime: { freshProcess: "never" },
        adminAuth: {
          users: [
            user("admin", "*"),
            user("reader", "read"),
            user("tabs", ["read", "flows.write@tab:mine"]),
            user("auditor", ["tokens.read", "audit.read"]),
          ],
        },
      },
    });
    admin = bearer(await loginTool(service, "admin"));
    reader = bearer(await loginTool(service, "reader"));
  });
  afterAll(() => service?.[Symbol.asyncDispose]());

  test("a token of a tool is accepted on the listener of tools only, and one of the API by the API only", async () => {
    const token = bearer(await login(service, { username: "admin" }));
    expect((await service.sendTool("GET", "/flows", { headers: admin })).status).toBe(200);
    expect((await service.send("GET", "/flows", { headers: token })).status).toBe(200);
    const refused = await service.send("GET", "/flows", { headers: admin });
    expect([refused.status, refused.headers["www-authenticate"]]).toEqual([
      401,
      expect.stringContaining("invalid_token"),
    ]);
    expect((await service.send("GET", "/tokens", { headers: admin })).status).toBe(401);
    expect((await service.sendTool("GET", "/flows", { headers: token })).status).toBe(401);
  });

  test("clients of Node-RED can't log in to the API, nor others to the listener of tools", async () => {
    const attempt = (client: string, send: "send" | "sendTool") =>
      service[send]("POST", "/auth/token", {
        headers: form,
        body: new URLSearchParams({ ...tokenParameters(), client_id: client }).toString(),
      });
    for (const client of ["node-red-admin", "node-red-editor"]) {
      const refused = await attempt(client, "send");
      expect([refused.status, (refused.json() as { error: string }).error]).toEqual([401, "invalid_client"]);
      expect((await attempt(client, "sendTool")).status).toBe(200);
    }
    expect((await attempt("service-admin", "sendTool")).status).toBe(401);
  });

  test("a token of a tool permits nothing that manages access, whoever its user is", async () => {
    const settings = (await service.sendTool("GET", "/settings", { headers: admin })).json() as Record<string, unknown>;
    expect(settings).toMatchObject({
      user: { username: "admin", permissions: "*" },
      version: expect.stringMatching(/^5\./),
    });
    const tokens = (await service.send("GET", "/tokens", { headers: bearer(await login(service, {})) })).json() as {
      tokens: { clientId: string; scope: string }[];
    };
    const scopes = tokens.tokens.filter(({ clientId }) => clientId === "node-red-editor").map(({ scope }) => scope);
    expect(scopes.length).toBeGreaterThan(0);
    expect(scopes.every((scope) => !/\*|tokens|audit/.test(scope))).toBe(true);
    const body = new URLSearchParams({ ...tokenParameters({ username: "auditor" }), client_id: "node-red-admin" });
    const refused = await service.sendTool("POST", "/auth/token", { headers: form, body: body.toString() });
    expect([refused.status, (refused.json() as { error: string }).error]).toEqual([400, "invalid_scope"]);
  });

  test.each([
    "/flows",
    "/settings",
    "/nodes",
    "/settings/user",
    "/library/local/flows",
    "/no-such-path",
    "/debug/x/enable",
  ])("%s needs a token, and is refused before its body is read", async (path) => {
    const unread = { "content-length": "1000000", ...json };
    for (const method of path === "/settings" || path === "/nodes" ? ["GET"] : ["GET", "POST"]) {
      const { status, body } = await service.sendTool(method, path, {
        ...(method === "POST" && { headers: { ...unread, "content-length": "2" }, body: "{}" }),
      });
      expect([method, path, status, body]).toEqual([method, path, 401, ""]);
    }
  });

  test("flows are deployed by both versions of Node-RED's API, as revisions of the user", async () => {
    const first = await service.sendTool("POST", "/flows", {
      headers: { ...admin, ...json, ...apiV2 },
      body: JSON.stringify({ flows: [tab("one")] }),
    });
    expect(first.status).toBe(200);
    const { rev } = first.json() as { rev: string };
    const read = await service.sendTool("GET", "/flows?_=17", { headers: { ...admin, ...apiV2 } });
    expect(read.json()).toEqual({ flows: [tab("one")], rev });
    const second = await service.sendTool("POST", "/flows", {
      headers: { ...admin, ...json, "node-red-deployment-type": "nodes" },
      body: JSON.stringify([tab("one"), tab("two")]),
    });
    expect([second.status, second.body]).toEqual([204, ""]);
    const token = bearer(await login(service, { username: "admin" }));
    const { revisions } = (await service.send("GET", "/revisions", { headers: token })).json() as {
      revisions: { user: string; deploymentType: string }[];
    };
    expect(revisions[0]).toMatchObject({ deploymentType: "nodes" });
    expect(JSON.stringify(revisions[0])).toContain("admin");

    const conflict = await service.sendTool("POST", "/flows", {
      headers: { ...admin, ...json, ...apiV2 },
      body: JSON.stringify({ flows: [], rev }),
    });
    expect([conflict.status, codeOf(conflict)]).toEqual([409, "version_mismatch"]);
    const version = await service.sendTool("GET", "/flows", { headers: { ...admin, "node-red-api-version": "v3" } });
    expect([version.status, codeOf(version)]).toEqual([400, "invalid_api_version"]);
  });

  test("a deployment can have a message in any language, which is kept with the revision", async () => {
    const send = (message: string) =>
      service.sendTool("POST", "/flows", {
        headers: { ...admin, ...json, ...apiV2, "node-red-deployment-message": message },
        body: JSON.stringify({ flows: [tab("t")] }),
      });
    const { rev } = (await send(encodeURIComponent("für 100 % — 新"))).json() as { rev: string };
    const own = bearer(await login(service, { username: "admin" }));
    const revision = (await service.send("GET", `/revisions/${rev}`, { headers: own })).json();
    expect(revision).toMatchObject({ message: "für 100 % — 新", user: "admin" });
    const refused = await send("100 %");
    expect([refused.status, refused.json()]).toEqual([
      400,
      { code: "invalid_argument", message: "node-red-deployment-message: must be percent-encoded UTF-8" },
    ]);
  });

  test("a reader can't deploy, and who may change some tabs changes those only", async () => {
    const send = (headers: object, flows: object[]) =>
      service.sendTool("POST", "/flows", { headers: { ...headers, ...json }, body: JSON.stringify(flows) });
    expect((await send(reader, [])).status).toBe(401);
    const tabs = bearer(await loginTool(service, "tabs"));
    const own = { ...tab("mine"), label: "mine" };
    expect((await send(admin, [own, tab("other")])).status).toBe(204);
    expect((await send(tabs, [{ ...own, info: "changed" }, tab("other")])).status).toBe(204);
    expect((await send(tabs, [own])).status).toBe(401);
  });

  test("one flow is added, read, replaced and removed", async () => {
    const create = await service.sendTool("POST", "/flow", {
      headers: { ...admin, ...json },
      body: JSON.stringify({ label: "added", nodes: [] }),
    });
    const { id } = create.json() as { id: string };
    expect((await service.sendTool("GET", `/flow/${id}`, { headers: admin })).json()).toMatchObject({
      id,
      label: "added",
    });
    const replaced = await service.sendTool("PUT", `/flow/${id}`, {
      headers: { ...admin, ...json },
      body: JSON.stringify({ id, label: "replaced", nodes: [] }),
    });
    expect(replaced.json()).toMatchObject({ id });
    expect((await service.sendTool("DELETE", `/flow/${id}`, { headers: admin })).status).toBe(204);
    const missing = await service.sendTool("GET", `/flow/${id}`, { headers: admin });
    expect([missing.status, codeOf(missing)]).toEqual([404, "not_found"]);
  });

  test("credentials in nodes are kept, changed and removed as by Node-RED's editor", async () => {
    const flows = (credentials?: object) => [tab("t"), reporter("r", "t", credentials && { credentials })];
    const send = (credentials?: object) =>
      service.sendTool("POST", "/flows", { headers: { ...admin, ...json }, body: JSON.stringify(flows(credentials)) });
    const read = async (headers = admin) =>
      (await service.sendTool("GET", "/credentials/reporter/r", { headers })).json();
    expect((await send({ user: "ada", password: "secret" })).status).toBe(204);
    expect(await read()).toEqual({ user: "ada", has_password: true });
    expect(await read(reader)).toEqual({ user: "", has_password: true });
    expect((await send()).status).toBe(204);
    expect(await read()).toEqual({ user: "ada", has_password: true });
    expect((await send({ user: "bob", password: "__PWRD__" })).status).toBe(204);
    expect(await read()).toEqual({ user: "bob", has_password: true });
    expect((await send({ password: "" })).status).toBe(204);
    expect(await read()).toEqual({ user: "bob", has_password: false });
  });

  test("flows are stopped and started for all replicas", async () => {
    const post = (state: unknown) =>
      service.sendTool("POST", "/flows/state", { headers: { ...admin, ...json }, body: JSON.stringify({ state }) });
    expect((await post("stop")).json()).toEqual({ state: "stop" });
    expect((await service.sendTool("GET", "/flows/state", { headers: reader })).json()).toEqual({ state: "stop" });
    expect((await post("start")).json()).toEqual({ state: "start" });
    expect((await post("paused")).status).toBe(400);
  });

  test("routes of nodes get the permissions of the caller", async () => {
    const node = { id: "i", type: "inject", z: "t", x: 1, y: 1, props: [{ p: "payload" }], wires: [[]], payload: "" };
    await service.sendTool("POST", "/flows", {
      headers: { ...admin, ...json },
      body: JSON.stringify([tab("t"), node, { id: "d", type: "debug", z: "t", x: 1, y: 1, wires: [] }]),
    });
    const injected = await service.sendTool("POST", "/inject/i", { headers: { ...admin, ...json }, body: "{}" });
    expect([injected.status, injected.body]).toEqual([200, "OK"]);
    expect(
      (await service.sendTool("POST", "/inject/none", { headers: { ...admin, ...json }, body: "{}" })).status,
    ).toBe(404);
    expect((await service.sendTool("POST", "/inject/i", { headers: { ...reader, ...json }, body: "{}" })).status).toBe(
      401,
    );
    expect(
      (await service.sendTool("POST", "/debug/d/disable", { headers: { ...admin, ...json }, body: "{}" })).status,
    ).toBe(201);
    expect(
      (await service.sendTool("POST", "/debug/d/disable", { headers: { ...reader, ...json }, body: "{}" })).status,
    ).toBe(401);
    const ports = await service.sendTool("GET", "/udp-ports/1", { headers: reader });
    expect(ports.status).toBe(200);
    expect(ports.headers["content-security-policy"]).toContain("sandbox");
    expect(ports.headers["cache-control"]).toBe("no-store");
    const forged = { ...reader, ...json, "x-flowgate-permissions": "flows.write runtime.inject" };
    expect((await service.sendTool("POST", "/debug/d/enable", { headers: forged, body: "{}" })).status).toBe(401);
    const missing = await service.sendTool("GET", "/no-such-route", { headers: admin });
    expect([missing.status, codeOf(missing)]).toEqual([404, "not_found"]);
    // Node-RED ignores case, and the audit log must not miss an injection.
    expect((await service.sendTool("POST", "/INJECT/i", { headers: { ...admin, ...json }, body: "{}" })).status).toBe(
      404,
    );
    // Whether or not the route requires a permission.
    for (const method of ["POST", "PUT", "DELETE"]) {
      const send = (headers: Record<string, string>) =>
        service.sendTool(method, "/no-such-route", { headers: { ...headers, ...json }, body: "{}" });
      expect([(await send(reader)).status, (await send(admin)).status]).toEqual([401, 404]);
    }
  });

  test("malformed requests have the codes of Node-RED", async () => {
    const send = (method: string, path: string, body: object) =>
      service.sendTool(method, path, { headers: { ...admin, ...json }, body: JSON.stringify(body) });
    for (const [method, path, body, code] of [
      ["POST", "/flows/state", { state: "none" }, "invalid_run_state"],
      ["POST", "/nodes", {}, "invalid_request"],
      ["PUT", "/nodes/node-red", {}, "invalid_request"],
      ["PUT", "/nodes/node-red/inject", { enabled: 1 }, "invalid_request"],
    ] as const) {
      const refused = await send(method, path, body);
      expect([path, refused.status, codeOf(refused)]).toEqual([path, 400, code]);
    }
  });

  test("a set whose nodes the flows have is not disabled, and the flows go on while another one is", async () => {
    const flows = endpoint("/count", `flow.set("n", (flow.get("n") ?? 0) + 1); msg.payload = String(flow.get("n"))`);
    await service.sendTool("POST", "/flows", { headers: { ...admin, ...json }, body: JSON.stringify(flows) });
    const own = bearer(await login(service, {}));
    expect(await service.get("/count", own)).toBe("1");
    const enable = (set: string, enabled: boolean) =>
      service.sendTool("PUT", `/nodes/node-red/${set}`, {
        headers: { ...admin, ...json },
        body: JSON.stringify({ enabled }),
      });
    const refused = await enable("function", false);
    expect([refused.status, codeOf(refused)]).toEqual([400, "type_in_use"]);
    expect((await enable("exec", false)).json()).toMatchObject({ id: "node-red/exec", enabled: false });
    expect((await enable("exec", true)).json()).toMatchObject({ id: "node-red/exec", enabled: true });
    expect(await service.get("/count", own)).toBe("2");
  });

  test("the module of Node-RED's own nodes can be enabled, as it is already", async () => {
    const enabled = await service.sendTool("PUT", "/nodes/node-red", {
      headers: { ...admin, ...json },
      body: JSON.stringify({ enabled: true }),
    });
    expect([enabled.status, enabled.json()]).toEqual([
      200,
      expect.objectContaining({ name: "node-red", local: false }),
    ]);
  });

  test("settings of users and the library are kept in the store", async () => {
    const send = (path: string, body: unknown, headers = admin) =>
      service.sendTool("POST", path, { headers: { ...headers, ...json }, body: JSON.stringify(body) });
    expect((await send("/settings/user", { editor: { a: 1, b: { c: 2 } }, telemetryEnabled: true })).status).toBe(204);
    expect((await send("/settings/user", { editor: { b: { d: 3 }, a: null } })).status).toBe(204);
    expect((await service.sendTool("GET", "/settings/user", { headers: admin })).json()).toEqual({
      editor: { b: { c: 2, d: 3 } },
    });
    expect((await service.sendTool("GET", "/settings/user", { headers: reader })).json()).toEqual({});

    expect((await send("/library/local/functions/a/greet.js", { name: "greet", text: "return msg;" })).status).toBe(
      204,
    );
    expect((await send("/library/local/flows/mine", [tab("t")])).status).toBe(204);
    expect((await send("/library/local/flows/mine", [], reader)).status).toBe(401);
    expect((await send("/library/local/flows/../x", [])).status).toBe(400);
    expect((await send("/library/local/functions/b.js", { text: "", info: "x".repeat(64 * 1024) })).status).toBe(413);
    const auditor = bearer(await login(service, { username: "auditor", scope: "audit.read" }));
    const audit = await service.send("GET", "/audit?kind=library_written", { headers: auditor });
    expect(audit.json()).toMatchObject({
      entries: [
        { user: "admin", subject: "flows/mine.json", tokenId: expect.stringMatching(/^[\da-f]{24}$/) },
        { user: "admin", subject: "functions/a/greet.js" },
      ],
    });
    const read = (path: string) => service.sendTool("GET", `/library/local/${path}`, { headers: reader });
    expect((await read("functions")).json()).toEqual(["a"]);
    expect((await read("functions/a")).json()).toEqual([{ fn: "greet.js", name: "greet" }]);
    const entry = await read("functions/a/greet.js");
    expect([entry.headers["content-type"], entry.body]).toEqual([expect.stringMatching(/^text\/plain/), "return msg;"]);
    expect((await read("flows/mine")).json()).toEqual([tab("t")]);
    expect((await read("flows/none")).status).toBe(404);
  });

  test("the examples of modules are a library, which can only be read", async () => {
    const read = (path: string) => service.sendTool("GET", `/library/examples/${path}`, { headers: reader });
    expect((await read("flows")).json()).toEqual(["node-red"]);
    expect((await read("flows/node-red/")).json()).toEqual(expect.arrayContaining(["common", "function"]));
    expect((await read("flows/node-red/function/")).json()).toEqual(expect.arrayContaining(["switch", "delay"]));
    const [first] = (await read("flows/node-red/function/delay")).json() as { fn: string }[];
    const example = await read(`flows/node-red/function/delay/${encodeURIComponent(first?.fn ?? "")}`);
    expect(example.headers["content-type"]).toMatch(/^application\/json/);
    expect(example.json()).toEqual(expect.arrayContaining([expect.objectContaining({ type: "delay" })]));

    expect((await read("functions")).json()).toEqual([]);
    for (const path of ["none", "node-red/none", "node-red/function/delay/none", "node-red/..%2F..%2Fpackage"]) {
      expect([path, (await read(`flows/${path}`)).status >= 400]).toEqual([path, true]);
    }
    const body = JSON.stringify([tab("t")]);
    const write = await service.sendTool("POST", "/library/examples/flows/x", { headers: { ...admin, ...json }, body });
    expect(write.status).toBe(400);
  });

  test("values of the context are read as the editor shows them, and removed", async () => {
    await deploy(service, { flows: endpoint("/set", `global.set("n", 5); flow.set("t", "text")`) }, "full", {
      ...bearer(await login(service, { username: "admin" })),
    });
    await service.get("/set", bearer(await login(service, { username: "admin" })));
    const read = async (path: string) => (await service.sendTool("GET", `/context/${path}`, { headers: admin })).json();
    expect(await read("global")).toEqual({ memory: { n: { msg: "5", format: "number" } } });
    expect(await read("global/n")).toEqual({ msg: "5", format: "number" });
    expect(await read("flow/tab%20of%20%2Fset")).toEqual({ memory: { t: { msg: "text", format: "string[4]" } } });
    expect(await read("flow/none")).toEqual({});
    expect((await service.sendTool("GET", "/context/global?store=none", { headers: admin })).status).toBe(404);
    expect((await service.sendTool("GET", "/context/global", { headers: reader })).status).toBe(401);
    const remove = async (path: string) =>
      (await service.sendTool("DELETE", `/context/${path}`, { headers: admin })).status;
    expect(await remove("global/n")).toBe(204);
    expect(await read("global")).toEqual({ memory: {} });
    // Node-RED knows what is already gone only by its store.
    expect([await remove("global/n"), await remove("flow/none/n"), await remove("global/n?store=none")]).toEqual([
      204, 204, 404,
    ]);
  });

  test("paths that this service replaces say by what, and those of the API are absent", async () => {
    const projects = await service.sendTool("GET", "/projects");
    expect([projects.status, (projects.json() as { message: string }).message]).toEqual([
      404,
      expect.stringContaining("flowgate history"),
    ]);
    expect((await service.sendTool("GET", "/settings/user/keys", { headers: admin })).status).toBe(404);
    for (const path of ["/revisions", "/tokens", "/audit", "/modules", "/auth/identity", "/openapi.json"]) {
      expect((await service.sendTool("GET", path, { headers: admin })).status).toBe(404);
    }
  });

  test("foreign pages and hosts are refused, with a token as well", async () => {
    const get = (headers: object) => service.sendTool("GET", "/flows", { headers: { ...admin, ...headers } });
    expect((await get({ origin: "https://evil.example" })).status).toBe(403);
    expect((await get({ origin: "null" })).status).toBe(403);
    expect((await get({ "sec-fetch-site": "cross-site" })).status).toBe(403);
    expect((await get({ host: "evil.example" })).status).toBe(421);
    expect((await get({ origin: service.toolsUrl })).status).toBe(200);
  });

  test("the API refuses the pages of the editor, whatever their token", async () => {
    const token = bearer(await login(service, { username: "admin" }));
    const get = (origin: string) => service.send("GET", "/tokens", { headers: { ...token, origin } });
    const refused = await get(service.toolsUrl);
    expect([refused.status, codeOf(refused)]).toEqual([403, "foreign_origin"]);
    expect((await get(service.toolsUrl.replace(/127\.0\.0\.1|\[::1\]/, "localhost"))).status).toBe(403);
    expect((await get("https://editor.example")).status).toBe(403);
    expect((await get(service.url)).status).toBe(200);
  });

  test("errors reveal nothing of the inside", async () => {
    const malformed = await service.sendTool("POST", "/settings/user", { headers: { ...admin, ...json }, body: "{" });
    const poisoned = await service.sendTool("POST", "/settings/user", {
      headers: { ...admin, ...json },
      body: `{"__proto__": {"a": 1}}`,
    });
    const large = await service.sendTool("POST", "/settings/user", {
      headers: { ...admin, ...json },
      body: JSON.stringify({ text: "x".repeat(300_000) }),
    });
    expect([malformed.status, poisoned.status, large.status]).toEqual([400, 400, 413]);
    for (const { body } of [malformed, poisoned, large]) {
      expect(Object.keys(JSON.parse(body) as object).toSorted()).toEqual(["code", "message"]);
      expect(body).not.toMatch(/node_modules|\.ts|\.js|at \//);
    }
  });

  test("a revoked token is refused", async () => {
    const token = await loginTool(service, "reader");
    const revoked = await service.sendTool("POST", "/auth/revoke", {
      headers: { ...bearer(token), ...json },
      body: JSON.stringify({ token }),
    });
    expect(revoked.status).toBe(200);
    expect((await service.sendTool("GET", "/flows", { headers: bearer(token) })).status).toBe(401);
  });
});

test("a subflow that is a module is listed with its type and template, and its nodes run and show their status", async () => {
  await using service = await startToolService({ config: { adminAuth: { users: [user("admin", "*")] } } });
  const admin = bearer(await loginTool(service, "admin"));
  const own = { ...bearer(await login(service, {})), ...json };
  const tarball = await pack({ name: "contrib-subflow", version: "1.0.0", ...packagedSubflow("packaged") });
  const installed = await service.send("POST", "/modules", {
    headers: own,
    body: JSON.stringify({ tarball: tarball.toString("base64") }),
  });
  expect(installed.json()).toMatchObject({
    module: { types: ["packaged"], loaded: true, sets: [{ name: "example", types: ["packaged"] }] },
    restarted: false,
  });
  const list = await service.sendTool("GET", "/nodes", { headers: { ...admin, accept: "application/json" } });
  expect(list.json()).toContainEqual(expect.objectContaining({ id: "contrib-subflow/example", types: ["packaged"] }));
  const html = (await service.sendTool("GET", "/nodes", { headers: { ...admin, accept: "text/html" } })).body;
  expect(html).toContain(`RED.nodes.registerType("packaged",{\n        subflowModule: true,`);
  const flows = endpoint("/packaged", "return msg;").map((each) =>
    each["type"] === "function" ? { ...each, type: "packaged", func: undefined } : each,
  );
  const deployed = await service.sendTool("POST", "/flows", {
    headers: { ...admin, ...json, ...apiV2 },
    body: JSON.stringify({ flows }),
  });
  const { rev } = deployed.json() as { rev: string };
  expect(await service.get("/packaged", own)).toBe("packaged");
  const { id } = flows.find(({ type }) => type === "packaged") as { id: string };
  await eventually(async () =>
    expect((await service.send("GET", "/runtime/nodes", { headers: own })).json()).toMatchObject({
      nodes: expect.arrayContaining([
        expect.objectContaining({ nodeId: id, status: expect.objectContaining({ text: "inside" }) }),
      ]),
    }),
  );
  const revision = (await service.send("GET", `/revisions/${rev}?view=FULL`, { headers: own })).json();
  expect(revision).toMatchObject({ modules: [{ name: "contrib-subflow", version: "1.0.0" }] });
});

test("who is not authenticated can't store settings for others", async () => {
  const adminAuth = { users: [user("admin", "*")], default: { permissions: "read" } };
  await using service = await startToolService({ config: { ...withoutRuntime, adminAuth } });
  expect((await service.sendTool("GET", "/settings/user")).json()).toEqual({});
  expect((await service.sendTool("POST", "/settings/user", { headers: json, body: `{"a": 1}` })).status).toBe(401);
  const headers = { ...bearer(await loginTool(service, "admin")), ...json };
  expect((await service.sendTool("POST", "/settings/user", { headers, body: `{"a": 1}` })).status).toBe(204);
});

test("without the option, nothing is served", async () => {
  await using service = await startService({ config: withoutRuntime });
  expect(service.log()).not.toContain("Node-RED's admin API");
});

test("without users, tools need no token, and a replica without flows answers what it can", async () => {
  await using service = await startToolService({ config: withoutRuntime });
  expect((await service.sendTool("GET", "/auth/login")).json()).toEqual({});
  const upgrade = { connection: "upgrade", upgrade: "h2c" };
  expect((await service.sendTool("GET", "/auth/login", { headers: upgrade })).json()).toEqual({});
  expect((await service.sendTool("GET", "/flows")).json()).toEqual([]);
  expect((await service.sendTool("GET", "/settings")).json()).not.toHaveProperty("user");
  const routes = await service.sendTool("GET", "/udp-ports/1");
  expect([routes.status, codeOf(routes)]).toEqual([400, "no_runtime"]);
  expect(
    (await service.sendTool("POST", "/flows", { headers: { ...json, origin: "http://evil.example" }, body: "[]" }))
      .status,
  ).toBe(403);
});

test("without users, a port that is read-only has an anonymous user who may only read", async () => {
  const nodeRed = { port: 0, editor: "read-only" };
  await using service = await startToolService({ config: { ...withoutRuntime, nodeRed } });
  const { user: anonymous } = (await service.sendTool("GET", "/settings")).json() as { user: { permissions: unknown } };
  expect(anonymous).toMatchObject({ anonymous: true });
  expect(anonymous.permissions).not.toBe("*");
  expect((await service.sendTool("GET", "/flows")).status).toBe(200);
  expect((await service.sendTool("POST", "/flows", { headers: json, body: "[]" })).status).toBe(401);
});

test("with TLS, the listener has it too, and names its own origin", async () => {
  await using folder = await mkdtempDisposable(join(tmpdir(), "flowgate-tools-"));
  const authority = createAuthority();
  const { cert, key } = issueServer(authority);
  const tls = { certFile: join(folder.path, "tls.crt"), keyFile: join(folder.path, "tls.key") };
  await writeFile(tls.certFile, cert);
  await writeFile(tls.keyFile, key);
  await using service = await startToolService({
    config: { ...withoutRuntime, tls, adminAuth: { users: [user("admin", "*")] } },
    tls: { ca: authority.cert },
  });
  expect(service.toolsUrl).toMatch(/^https:/);
  const headers = bearer(await loginTool(service, "admin"));
  const get = (origin: string) => service.sendTool("GET", "/flows", { headers: { ...headers, origin } });
  expect((await get(service.toolsUrl)).status).toBe(200);
  expect((await get("https://evil.example")).status).toBe(403);
  const own = bearer(await login(service, { username: "admin" }));
  const refused = await service.send("GET", "/tokens", { headers: { ...own, origin: service.toolsUrl } });
  expect(refused.status).toBe(403);
});

/** Makes the runtime process answer every request of the service by this code, with `response`. */
function hijack(code: string) {
  const initialize = `const host = util.inspect.constructor("return process")();
    const { Server } = host.getBuiltinModule("http");
    const { emit } = Server.prototype;
    Server.prototype.emit = function (name, request, response) {
      if (name !== "request" || request.headers["x-flowgate-permissions"] === undefined) { return emit.apply(this, arguments); }
      ${code}
      return true;
    };`;
  return [tab("t"), { ...functionNodeOf("t"), initialize }];
}

function functionNodeOf(z: string) {
  return { id: "f", type: "function", z, x: 1, y: 1, func: "", initialize: "", wires: [[]], outputs: 1, libs: [] };
}

describe("flows that answer in the place of nodes", () => {
  let service: ToolService;
  let admin: Record<string, string>;
  beforeAll(async () => {
    service = await startToolService({ config: { adminAuth: { users: [user("admin", "*")] } } });
    admin = bearer(await loginTool(service, "admin"));
  });
  afterAll(() => service?.[Symbol.asyncDispose]());

  const answer = async (code: string) => {
    await service.sendTool("POST", "/flows", { headers: { ...admin, ...json }, body: JSON.stringify(hijack(code)) });
    return service.sendTool("GET", "/page", { headers: admin });
  };

  test("reach no browser that has not sent a token, and none as a page or a cached script", async () => {
    const page = await answer(
      `response.writeHead(200, { "content-type": "text/html", "set-cookie": "a=b", "cache-control": "max-age=9999",
        "content-security-policy": "default-src *", "access-control-allow-origin": "*", location: "//evil.example" }).end("<script>")`,
    );
    expect([page.status, page.body]).toEqual([200, "<script>"]);
    expect(page.headers).toMatchObject({
      "content-security-policy": "sandbox; default-src 'none'",
      "cache-control": "no-store",
      "x-content-type-options": "nosniff",
    });
    for (const name of ["set-cookie", "access-control-allow-origin", "location"]) {
      expect(page.headers).not.toHaveProperty(name);
    }
    expect((await service.sendTool("GET", "/page")).status).toBe(401);
    // What the service itself answers is not theirs.
    const nodes = await service.sendTool("GET", "/nodes", { headers: { ...admin, accept: "text/html" } });
    expect(nodes.body).toContain("data-template-name");
  });

  test("do not get the token of the caller", async () => {
    const { body } = await answer(`response.end(JSON.stringify(request.headers))`);
    expect(body).toContain("x-flowgate-permissions");
    expect(body).not.toMatch(/authorization|bearer/i);
  });

  test.each([
    ["with something else than HTTP", `request.socket.end("no http\\r\\n\\r\\n")`],
    ["with another protocol", `request.socket.end("HTTP/1.1 101 Switching Protocols\\r\\nUpgrade: x\\r\\n\\r\\n")`],
    ["with too long headers", `request.socket.end("HTTP/1.1 200 OK\\r\\nx: " + "y".repeat(100_000) + "\\r\\n\\r\\n")`],
    ["by closing the connection", `request.socket.destroy()`],
  ])("and answer %s cause an error", async (_, code) => {
    const failed = await answer(code);
    expect([failed.status, codeOf(failed)]).toEqual([504, "flows_unresponsive"]);
  });

  test("and answer without an end are cut", async () => {
    const endless = `const chunk = Buffer.alloc(65_536); const write = () => { while (response.write(chunk)) {} };
      response.on("drain", write); write();`;
    await expect(answer(endless)).rejects.toThrow(/socket hang up|ECONNRESET|aborted/);
    expect((await service.sendTool("GET", "/flows", { headers: admin })).status).toBe(200);
  });
});
