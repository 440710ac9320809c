import { once } from "node:events";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { OperationObject } from "../../packages/gateway/src/openapi/document.ts";
import { endpoints } from "../../scripts/openapi-endpoints.ts";
import { examples } from "../../scripts/openapi-examples.ts";
import { bearer, form, json, type Reply, type Sending, v2 } from "./rest.ts";
import { type NpmRegistry, openNpmRegistry } from "../../packages/runtime/test/modules/npm-registry.ts";
import { nodesOf, templatesOf, writeModules } from "../../packages/runtime/test/modules/write-modules.ts";
import { functionNode, tab } from "./flow-builders.ts";
import { eventually, type Service, startService } from "./service.ts";
import { login, type TokenParameters, tokenParameters, user } from "./users.ts";
import { openStream } from "./watch-events.ts";

let registry: NpmRegistry;
let service: Service;
let admin: Record<string, string>;
let rev: string;
const message = { "service-deployment-message": "new greeting" };
const compared = new Set<string>();

beforeAll(async () => {
  registry = await openNpmRegistry(() =>
    ["2.1.0", "2.2.0"].map((version) => ({
      name: "node-red-contrib-cron-plus",
      version,
      manifest: { "node-red": { nodes: { all: "nodes.js" } } },
      files: { "nodes.js": nodesOf(["cronplus"]), "nodes.html": templatesOf(["cronplus"]) },
    })),
  );
  service = await startService({
    config: {
      adminAuth: { users: [user("admin", "*"), user("editor", ["flows.read", "flows.write", "flows.propose"])] },
      runtime: { freshProcess: "never" },
      modules: { registry: registry.url, deny: ["node-red-contrib-other"] },
    },
    prepare: async (dataDir) => {
      await writeModules(join(dataDir, "modules"), [{ name: "node-red-contrib-cron-plus", types: ["cronplus"] }]);
    },
  });
  admin = bearer(await login(service, { username: "admin" }));
});
afterAll(async () => {
  await service[Symbol.asyncDispose]();
  await registry[Symbol.asyncDispose]();
});

/** The example of a request body. */
function sent(operationId: string, name: string, mediaType = "application/json"): unknown {
  const example = examples[operationId]?.request?.[mediaType]?.[name];
  compared.add(`${operationId} request ${mediaType} ${name}`);
  expect(example, `${operationId} ${name}`).toBeDefined();
  return example?.value;
}

/** Sends a request as admin, an object as JSON. */
async function call(method: string, target: string, body?: unknown, headers: Sending["headers"] = {}): Promise<Reply> {
  return await service.send(method, target, {
    headers: { ...admin, ...(body === undefined ? {} : json), ...headers },
    ...(body === undefined ? {} : { body: typeof body === "string" ? body : JSON.stringify(body) }),
  });
}

/** Compares a response with its example: errors by their text, others by the names and types of their values. */
function check(reply: Reply, status: number, operationId: string, name: string, mediaType = "application/json"): void {
  const { responses = {} } = examples[operationId] ?? {};
  const found = String(status) in responses ? String(status) : "default";
  const example = responses[found]?.[mediaType]?.[name];
  compared.add(`${operationId} ${found} ${mediaType} ${name}`);
  expect({ operationId, name, status: reply.status, body: reply.body }).toMatchObject({ operationId, name, status });
  const compare = status >= 400 ? mask : shape;
  const [body, expected] = [reply.body, example?.value].map((value) => compare(parse(value, mediaType)));
  expect({ operationId, name, body }).toEqual({ operationId, name, body: expected });
}

/** A body as JSON, if it is JSON; of a stream the first item. */
function parse(body: unknown, mediaType: string): unknown {
  if (typeof body !== "string" || mediaType === "text/plain") {
    return body;
  }
  const lines = mediaType === "application/json" ? [body] : body.split("\n");
  const line = lines.find((each) => mediaType !== "text/event-stream" || each.startsWith("data: ")) ?? "";
  return JSON.parse(line.replace(/^data: /, ""));
}

const formats: [name: string, pattern: RegExp][] = [
  ["time", /^\d{4}-\d\d-\d\dT[\d:]{8}\.\d{3}Z$/],
  ["revision", /^[\w-]{22}$/],
  ["id of a token", /^[\da-f]{24}$/],
  ["token", /^[\w-]{43}$/],
  ["hash", /^[\da-f]{64}$/],
];

/** The names, types and formats in a value; of an array those of its first item. */
function shape(value: unknown): unknown {
  if (Array.isArray(value)) {
    return value.slice(0, 1).map(shape);
  }
  if (typeof value === "string") {
    return formats.find(([, pattern]) => pattern.test(value))?.[0] ?? "string";
  }
  if (typeof value !== "object" || value === null) {
    return typeof value;
  }
  // Its fields depend on what the machine permits.
  const entries = Object.entries(value).map(([name, inner]) => [name, name === "isolation" ? {} : shape(inner)]);
  return Object.fromEntries(entries);
}

/** An error: all of its text but revisions, and the shape of its details. */
function mask(value: unknown): unknown {
  const { code, message, error, error_description: text, ...details } = value as Record<string, unknown>;
  const masked = JSON.stringify([code, message, error, text]).replaceAll(/"[\w-]{22}\\"/g, "<revision>");
  return [masked, shape(details)];
}

async function activeRev(): Promise<string> {
  return ((await call("GET", "/flows", undefined, v2)).json() as { rev: string }).rev;
}

test("logins are answered as in their examples", async () => {
  check(await call("GET", "/auth/login"), 200, "AuthService_GetLogin", "credentials");
  const token = async (changes: Partial<TokenParameters>, headers = json) => {
    const example = sent("AuthService_IssueToken", "password", headers["content-type"]) as TokenParameters;
    const parameters = { ...example, ...changes };
    const body = headers === json ? JSON.stringify(parameters) : new URLSearchParams(parameters).toString();
    return await service.send("POST", "/auth/token", { headers, body });
  };
  const { scope: _, ...withoutScope } = sent("AuthService_IssueToken", "password") as TokenParameters;
  check(await token({}, form), 200, "AuthService_IssueToken", "token");
  check(await token({}), 200, "AuthService_IssueToken", "token");
  check(await call("POST", "/auth/token", withoutScope), 200, "AuthService_IssueToken", "allPermissions");
  check(await token({ password: "no" }), 400, "AuthService_IssueToken", "wrongPassword");
  check(await token({ client_id: "no" }), 401, "AuthService_IssueToken", "unknownClient");
  for (let failed = 0; failed < 5; failed++) {
    await token({ username: "nobody" });
  }
  check(await token({ username: "nobody" }), 429, "AuthService_IssueToken", "tooMany");
  check(await call("GET", "/auth/identity"), 200, "AuthService_GetIdentity", "login");
  const revoke = (body: string, headers: Record<string, string>) => call("POST", "/auth/revoke", body, headers);
  const parameters = sent("AuthService_RevokeToken", "token", form["content-type"]) as Record<string, string>;
  expect((await revoke(new URLSearchParams(parameters).toString(), form)).status).toBe(200);
  expect((await revoke(JSON.stringify(sent("AuthService_RevokeToken", "token")), json)).status).toBe(200);
  check(await revoke("{}", json), 400, "AuthService_RevokeToken", "missing");
});

test("modules are listed and changed as in their examples", async () => {
  const nodes = ["cronplus", "mqtt-sparkplug-in"].map((type) => ({ id: type, type, z: "T", wires: [] }));
  expect((await call("POST", "/flows", [tab("T"), ...nodes])).status).toBe(204);
  check(await call("GET", "/modules"), 200, "ModulesService_ListModules", "modules");
  const path = "/modules/node-red-contrib-cron-plus";
  check(await call("GET", path), 200, "ModulesService_GetModule", "module");

  await call("POST", "/flows", [tab("T"), ...nodes.slice(0, 1)]);
  const install = (body: unknown) => call("POST", "/modules", body);
  const installed = await install(sent("ModulesService_InstallModule", "range"));
  check(installed, 201, "ModulesService_InstallModule", "running");
  // It has no files.
  expect((await install(sent("ModulesService_InstallModule", "tarball"))).status).toBe(400);
  const refused = await install({ name: "node-red-contrib-other" });
  check(refused, 403, "ModulesService_InstallModule", "refused");
  const update = (name: string) => call("PATCH", path, sent("ModulesService_UpdateModule", name));
  check(await update("version"), 200, "ModulesService_UpdateModule", "updated");
  check(await call("DELETE", path), 400, "ModulesService_DeleteModule", "used");
  check(await update("disable"), 200, "ModulesService_UpdateModule", "disabled");
  await call("POST", "/flows", [tab("T")]);
  check(await call("DELETE", path), 200, "ModulesService_DeleteModule", "removed");
});

test("deployments are answered as in their examples", async () => {
  check(
    await call("POST", "/flows", sent("FlowsService_SetFlows", "v2Credentials"), v2),
    200,
    "FlowsService_SetFlows",
    "v2",
  );
  const nodes = sent("FlowsService_SetFlows", "v1") as object[];
  expect((await call("POST", "/flows", nodes)).status).toBe(204);
  const read = await call("GET", "/flows");
  expect(read.json()).toEqual(nodes);
  check(read, 200, "FlowsService_GetFlows", "v1");
  check(await call("GET", "/flows", undefined, v2), 200, "FlowsService_GetFlows", "v2");
  check(
    await call("GET", "/flows", undefined, { "service-api-version": "v3" }),
    400,
    "FlowsService_GetFlows",
    "version",
  );
  check(await call("POST", "/flows", [...nodes.slice(0, 3), { type: "debug" }]), 400, "FlowsService_SetFlows", "flows");

  const conditional = sent("FlowsService_SetFlows", "v2") as object;
  check(
    await call("POST", "/flows", { ...conditional, rev: await activeRev() }, { ...v2, ...message }),
    200,
    "FlowsService_SetFlows",
    "v2",
  );
  const guarded = sent("FlowsService_UndoFlows", "guarded");
  check(await call("POST", "/flows:undo", guarded), 409, "FlowsService_UndoFlows", "mismatch");
  check(
    await call("POST", "/flows:undo", sent("FlowsService_UndoFlows", "active")),
    200,
    "FlowsService_UndoFlows",
    "undone",
  );
});

test("plans and differences are those of their examples", async () => {
  const planned = sent("FlowsService_PlanFlows", "v1") as { id: string }[];
  const active = sent("FlowsService_SetFlows", "v1") as { id: string }[];
  const broker = planned.filter(({ id }) => active.every((each) => each.id !== id));
  expect((await call("POST", "/flows", [...active, ...broker])).status).toBe(204);
  const plan = async (headers: Record<string, string>, body: unknown = planned) =>
    await call("POST", "/flows:plan", body, { "service-deployment-type": "nodes", ...headers });
  const reply = await plan({});
  check(reply, 200, "FlowsService_PlanFlows", "plan");
  const example = examples["FlowsService_PlanFlows"]?.responses?.["200"]?.["application/json"]?.["plan"]
    ?.value as object;
  expect(reply.json()).toEqual({ ...example, rev: await activeRev() });
  check(await plan(v2, sent("FlowsService_PlanFlows", "v2")), 200, "FlowsService_PlanFlows", "plan");
  const text = await plan({ accept: "text/plain" });
  check(text, 200, "FlowsService_PlanFlows", "plan", "text/plain");
  expect(text.body).toBe(examples["FlowsService_PlanFlows"]?.responses?.["200"]?.["text/plain"]?.["plan"]?.value);

  expect((await call("POST", "/flows", planned, message)).status).toBe(204);
  rev = await activeRev();
  check(await call("GET", `/revisions/${rev}:diff`), 200, "RevisionsService_DiffRevision", "diff");
  const difference = await call("GET", `/revisions/${rev}:diff`, undefined, { accept: "text/plain" });
  check(difference, 200, "RevisionsService_DiffRevision", "diff", "text/plain");
  expect(difference.body).toBe(
    examples["RevisionsService_DiffRevision"]?.responses?.["200"]?.["text/plain"]?.["diff"]?.value,
  );
});

test("revisions are answered as in their examples", async () => {
  check(await call("GET", "/revisions?pageSize=1"), 200, "RevisionsService_ListRevisions", "page");
  check(await call("GET", "/revisions?pageToken=no"), 400, "RevisionsService_ListRevisions", "token");
  check(await call("GET", `/revisions/${rev}`), 200, "RevisionsService_GetRevision", "basic");
  check(await call("GET", `/revisions/${rev}?view=FULL`), 200, "RevisionsService_GetRevision", "full");
  check(await call("GET", "/revisions/0198"), 404, "RevisionsService_GetRevision", "unknown");
  const update = (name: string) => call("PATCH", `/revisions/${rev}`, sent("RevisionsService_UpdateRevision", name));
  check(await update("pin"), 200, "RevisionsService_UpdateRevision", "pinned");
  expect((await update("message")).status).toBe(200);
  const restore = (body: unknown) => call("POST", `/revisions/${rev}:restore`, body);
  check(
    await restore(sent("RevisionsService_RestoreRevision", "any")),
    200,
    "RevisionsService_RestoreRevision",
    "restored",
  );
  expect((await restore(sent("RevisionsService_RestoreRevision", "guarded"))).status).toBe(409);
});

test("one flow is read and changed as in its examples", async () => {
  const id = "9b1c0f5e2d7a4c11";
  check(await call("GET", `/flow/${id}`), 200, "FlowsService_GetFlow", "tab");
  check(await call("GET", "/flow/global"), 200, "FlowsService_GetFlow", "global");
  check(await call("GET", "/flow/9b1c"), 404, "FlowsService_GetFlow", "unknown");
  const update = (body: object) => call("PUT", `/flow/${id}`, body);
  const guarded = sent("FlowsService_UpdateFlow", "guarded") as object;
  check(await update({ ...guarded, rev: await activeRev() }), 200, "FlowsService_UpdateFlow", "changed");
  check(await update(sent("FlowsService_UpdateFlow", "disabled") as object), 200, "FlowsService_UpdateFlow", "changed");
  for (const name of ["Enable", "Disable"]) {
    const operation = `FlowsService_${name}Flow`;
    const reply = await call("POST", `/flow/${id}:${name.toLowerCase()}`, sent(operation, "unconditional"), message);
    check(reply, 200, operation, "changed");
  }
  const changed = await call("DELETE", `/flow/${id}`, undefined, { "if-match": '"no"' });
  check(changed, 412, "FlowsService_DeleteFlow", "changed");
  expect((await call("DELETE", `/flow/${id}`)).status).toBe(204);
  const add = () => call("POST", "/flow", sent("FlowsService_CreateFlow", "flow"));
  check(await add(), 200, "FlowsService_CreateFlow", "created");
  check(await add(), 400, "FlowsService_CreateFlow", "duplicate");
});

test("proposals are answered as in their examples", async () => {
  const editor = { username: "editor", password: "the password of editor", scope: "flows.propose" };
  const headers = { ...bearer(await login(service, editor)), ...message, "service-deployment-type": "nodes" };
  const nodes = sent("ProposalsService_CreateProposal", "v1") as { type: string }[];
  const changed = nodes.map((node) => (node.type === "function" ? { ...node, func: "return msg;" } : node));
  expect((await call("POST", "/flows", changed)).status).toBe(204);
  const created = await call("POST", "/proposals", nodes, headers);
  check(created, 201, "ProposalsService_CreateProposal", "created");
  const v2Body = { ...(sent("ProposalsService_CreateProposal", "v2") as object), rev: await activeRev() };
  const second = (await call("POST", "/proposals", v2Body, { ...headers, ...v2 })).json() as { id: string };
  const nothing = await call("POST", "/proposals", changed, headers);
  check(nothing, 400, "ProposalsService_CreateProposal", "nothing");
  const { id, digest } = created.json() as { id: string; digest: string };
  check(await call("GET", "/proposals?state=open"), 200, "ProposalsService_ListProposals", "open");
  check(await call("GET", `/proposals/${id}`), 200, "ProposalsService_GetProposal", "basic");
  check(await call("GET", `/proposals/${id}?view=FULL`), 200, "ProposalsService_GetProposal", "full");
  check(await call("GET", `/proposals/${id}:plan`), 200, "ProposalsService_PlanProposal", "plan");
  const text = await call("GET", `/proposals/${id}:plan`, undefined, { accept: "text/plain" });
  check(text, 200, "ProposalsService_PlanProposal", "plan", "text/plain");
  const withdrawal = sent("ProposalsService_WithdrawProposal", "reason");
  const withdrawn = await call("POST", `/proposals/${second.id}:withdraw`, withdrawal, headers);
  check(withdrawn, 200, "ProposalsService_WithdrawProposal", "withdrawn");
  const third = (await call("POST", "/proposals", nodes, headers)).json() as { id: string };
  const rejection = sent("ProposalsService_RejectProposal", "reason");
  const rejected = await call("POST", `/proposals/${third.id}:reject`, rejection);
  check(rejected, 200, "ProposalsService_RejectProposal", "rejected");
  const own = (await call("POST", "/proposals", nodes)).json() as { id: string; digest: string };
  const approval = sent("ProposalsService_ApproveProposal", "reviewed") as object;
  const approve = (proposal: typeof own) =>
    call("POST", `/proposals/${proposal.id}:approve`, { ...approval, digest: proposal.digest });
  check(await approve(own), 403, "ProposalsService_ApproveProposal", "own");
  check(await approve({ id, digest }), 200, "ProposalsService_ApproveProposal", "deployed");
});

test("the endpoints are answered as in their examples", async () => {
  const exampleOf = (path: string, mediaType: string, name: string): unknown => {
    const operation = endpoints[path]?.["get"] as OperationObject | undefined;
    const media = operation?.responses["200"]?.content?.[mediaType];
    return (media?.["examples"] as Record<string, { value: unknown }> | undefined)?.[name]?.value;
  };
  for (const [path, name] of [
    ["/healthz", "ok"],
    ["/readyz", "ready"],
  ] as const) {
    expect((await call("GET", path)).json()).toEqual(exampleOf(path, "application/json", name));
  }
  const metric = (exampleOf("/metrics", "text/plain", "counter") as string).replace(/\d+\n$/, "");
  expect((await call("GET", "/metrics")).body).toContain(metric);
});

test("events are sent and listed as in their examples", async () => {
  const status = `node.status({ text: "on", fill: "green", shape: "dot" });`;
  const flows = [
    tab("t"),
    { id: "i", type: "inject", z: "t", once: true, onceDelay: 0.1, props: [], x: 1, y: 1, wires: [["f"]] },
    functionNode("f", { z: "t", name: "greet", func: `${status} node.warn("one"); throw new Error("two");` }),
  ];
  const deployed = await call("POST", "/flows", { flows }, { ...v2, ...message });
  expect(deployed.status).toBe(200);
  for (const accept of ["application/json", "application/x-ndjson", "text/event-stream"]) {
    const response = await openStream(service.url, { kinds: ["deployment"] }, { ...admin, accept });
    const [chunk] = (await once(response, "data")) as [Buffer];
    response.destroy();
    const { statusCode: status = 0, headers } = response;
    // The stream does not end, and so the array has no end either.
    const body = accept === "application/json" ? `${chunk.toString()}]` : chunk.toString();
    const reply = { status, headers, body, json: () => JSON.parse(body) as unknown };
    check(reply, 200, "EventsService_WatchEvents", "events", accept);
  }
  const listed = await eventually(async () => {
    const reply = await call("GET", "/logs?kinds=node_error&pageSize=1&level=error");
    expect((reply.json() as { logs: unknown[] }).logs).toHaveLength(1);
    return await call("GET", "/logs?kinds=node_error&pageSize=1");
  });
  check(listed, 200, "LogsService_ListLogs", "logs");
  const states = await eventually(async () => {
    const reply = await call("GET", "/runtime/nodes?failing=true");
    expect((reply.json() as { nodes: object[] }).nodes).toMatchObject([{ warnings: 1, errors: 1, messages: 1 }]);
    return reply;
  });
  check(states, 200, "RuntimeService_ListNodeStatuses", "failing");
  const runtime = await eventually(async () => {
    const reply = await call("GET", "/runtime");
    // The first measurements cover no time.
    expect(reply.json()).toMatchObject({
      runtimeProcess: { cpuShare: expect.any(Number) as number },
      serviceProcess: { cpuShare: expect.any(Number) as number },
    });
    return reply;
  });
  check(runtime, 200, "RuntimeService_GetRuntime", "running");
});

test("tokens, settings, the audit log and the runtime are answered as in their examples", async () => {
  check(await call("GET", "/settings"), 200, "SettingsService_GetSettings", "running");
  await call("POST", "/flows", { flows: [tab("T"), functionNode("target", { z: "T" })] }, v2);
  for (const name of ["message", "button"]) {
    const injected = await call("POST", "/runtime/nodes/target:inject", sent("RuntimeService_InjectNode", name));
    check(injected, 200, "RuntimeService_InjectNode", "received");
  }
  for (const path of ["/context/global/counter", "/context/flow/T/names"]) {
    const set = await call("PUT", path, sent("ContextService_SetContext", "value"));
    check(set, 200, "ContextService_SetContext", "set");
  }
  check(await call("GET", "/context/global/counter"), 200, "ContextService_GetContext", "value");
  check(await call("GET", "/context/global"), 200, "ContextService_GetContext", "scope");
  check(await call("GET", "/context"), 200, "ContextService_ListContext", "keys");
  for (const [path, example] of [
    ["functions/tools/greet.js", "function"],
    ["flows/mine", "flows"],
  ]) {
    const set = await call("PUT", `/library/${path}`, sent("LibraryService_SetLibraryEntry", example ?? ""));
    check(set, 200, "LibraryService_SetLibraryEntry", "set");
  }
  const stop = await call("POST", "/runtime:stop", sent("RuntimeService_StopFlows", "stop"));
  check(stop, 200, "RuntimeService_StopFlows", "stopped");
  const start = await call("POST", "/runtime:start", sent("RuntimeService_StartFlows", "start"));
  check(start, 200, "RuntimeService_StartFlows", "running");
  const restart = await call("POST", "/runtime:restart", sent("RuntimeService_RestartRuntime", "restart"));
  check(restart, 200, "RuntimeService_RestartRuntime", "running");
  const created = await call("POST", "/tokens", sent("TokensService_CreateToken", "year"));
  check(created, 201, "TokensService_CreateToken", "created");
  const { accessToken } = created.json() as { accessToken: string };
  expect((await service.send("GET", "/flows", { headers: bearer(accessToken) })).status).toBe(200);
  check(await call("GET", "/tokens"), 200, "TokensService_ListTokens", "tokens");
  const listed = await call("GET", "/audit?kind=deployment&pageSize=1");
  check(listed, 200, "AuditService_ListAuditEntries", "entries");
  const { seq = 0 } = (listed.json() as { entries: { seq: number }[] }).entries[0] ?? {};
  for (const accept of ["application/json", "application/x-ndjson", "text/event-stream"]) {
    const exported = await call("GET", `/audit:export?afterSeq=${seq - 1}`, undefined, { accept });
    check(exported, 200, "AuditService_ExportAudit", "entries", accept);
  }
  check(await call("GET", "/audit:verify"), 200, "AuditService_VerifyAudit", "intact");
  await login(service, {
    ...tokenParameters(),
    username: "editor",
    password: "the password of editor",
    scope: "flows.read",
  });
  check(
    await call("POST", "/tokens:revoke", sent("TokensService_RevokeTokens", "user")),
    200,
    "TokensService_RevokeTokens",
    "revoked",
  );
  check(
    await call("POST", "/tokens:revoke", sent("TokensService_RevokeTokens", "all")),
    200,
    "TokensService_RevokeTokens",
    "revoked",
  );
});

test("the examples that were not compared are those of states that these requests do not cause", () => {
  const all = Object.entries(examples).flatMap(([operationId, { request = {}, responses = {} }]) =>
    Object.entries({ request, ...responses }).flatMap(([place, content]) =>
      Object.entries(content).flatMap(([mediaType, byName]) =>
        Object.keys(byName).map((name) => `${operationId} ${place} ${mediaType} ${name}`),
      ),
    ),
  );
  expect(all.filter((each) => !compared.has(each))).toEqual([
    "AuthService_GetLogin 200 application/json none",
    // It needs a registry.
    "FlowsService_SetFlows request application/json modules",
    "AuditService_VerifyAudit 200 application/json changed",
    "SettingsService_GetSettings 200 application/json failed",
  ]);
});
