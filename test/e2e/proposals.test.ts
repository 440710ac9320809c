import { randomBytes } from "node:crypto";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { Code } from "@connectrpc/connect";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { FlowsService } from "../../gen/flowgate/v1/flows_pb.ts";
import { ProposalsService, ProposalState } from "../../gen/flowgate/v1/proposals_pb.ts";
import { encryptCredentials } from "../../packages/flows/test/encrypt-credentials.ts";
import { deploy, tryDeploy } from "./deploy.ts";
import { type Node, reporter, tab } from "./flow-builders.ts";
import { bearer, form, json, type Reply, v2 } from "./rest.ts";
import { call, rpcProtocolNames, rpcProtocols } from "./rpc.ts";
import { type Service, startService, withoutRuntime } from "./service.ts";
import { loginTool, startToolService, type ToolService } from "./tools.ts";
import { login, tokenParameters, user } from "./users.ts";

const comment = (id: string, z: string, name = id): Node => ({ id, type: "comment", z, x: 1, y: 1, name });
const labelled = (id: string, label: string): Node => ({ ...tab(id), label });
const shared: Node = { id: "shared", type: "tls-config", name: "shared" };
const flows = [
  labelled("g", "Greetings"),
  comment("g1", "g"),
  labelled("i", "Invoices"),
  comment("i1", "i"),
  reporter("ir", "i"),
  shared,
];

const replaced = (id: string, properties: object, nodes: readonly Node[] = flows): Node[] =>
  nodes.map((node) => (node.id === id ? { ...node, ...properties } : node));

type Proposal = {
  readonly id: string;
  readonly base: string;
  readonly state: string;
  readonly digest: string;
  readonly reason?: string;
  readonly rev?: string;
};

type TokenResponse = { readonly access_token: string; readonly scope: string };

const credentialSecret = "the secret of the credentials";
const users = [
  user("ada", "*"),
  user("bob", ["read", "flows.approve"]),
  user("grace", ["read", "flows.propose", "flows.approve"]),
  user("emergency", ["*", "flows.deploy_unapproved"]),
  user("invoicing", ["read", "flows.propose@tab:Invoices", "flows.approve@tab:Invoices", "flows.write@tab:Invoices"]),
  user("robot", ["flows.read", "flows.write"]),
];
type Name = "ada" | "bob" | "grace" | "emergency" | "invoicing" | "robot";

let service: Service;
let as: Record<Name, Record<string, string>>;

async function loginAll(to: Service): Promise<typeof as> {
  const scopes: Partial<Record<Name, string>> = { emergency: "* flows.deploy_unapproved" };
  const entries = users.map(async ({ username, permissions }) => {
    const scope = scopes[username as Name] ?? (typeof permissions === "string" ? permissions : permissions.join(" "));
    return [username, bearer(await login(to, { username, scope }))] as const;
  });
  return Object.fromEntries(await Promise.all(entries)) as unknown as typeof as;
}

const send = (who: Name, method: string, path: string, body?: object, to = service): Promise<Reply> =>
  to.send(method, path, {
    headers: { ...as[who], ...(body !== undefined && json), ...(method === "POST" && v2) },
    ...(body !== undefined && { body: JSON.stringify(body) }),
  });

const tryPropose = (who: Name, nodes: readonly Node[], more: object = {}, headers: Record<string, string> = {}) =>
  service.send("POST", "/proposals", {
    headers: { ...as[who], ...json, ...v2, "service-deployment-type": "nodes", ...headers },
    body: JSON.stringify({ flows: nodes, ...more }),
  });

async function propose(...parameters: Parameters<typeof tryPropose>): Promise<Proposal> {
  const reply = await tryPropose(...parameters);
  expect({ status: reply.status, body: reply.body }).toMatchObject({ status: 201 });
  return reply.json() as Proposal;
}

const approve = (who: Name, { id, digest }: Proposal, to = service) =>
  send(who, "POST", `/proposals/${id}:approve`, { digest }, to);
const read = async (id: string, to = service) => (await send("ada", "GET", `/proposals/${id}`, undefined, to)).json();
const activeRev = async (to = service) =>
  String((await to.send("GET", "/flows", { headers: as.ada })).headers["etag"]).replaceAll('"', "");
const codeOf = (reply: Reply) => ({ status: reply.status, code: (reply.json() as { code: string }).code });

async function auditOf(subject: string) {
  const { entries } = (await send("ada", "GET", "/audit?pageSize=50")).json() as {
    entries: { kind: string; user: string; subject: string; detail: string; digest: string; tokenName?: string }[];
  };
  return entries.filter((entry) => entry.subject === subject);
}

describe("a service that requires no approvals", () => {
  beforeAll(async () => {
    service = await startService({ config: { ...withoutRuntime, credentialSecret, adminAuth: { users } } });
    as = await loginAll(service);
  });
  afterAll(() => service?.[Symbol.asyncDispose]());
  beforeEach(async () => {
    await deploy(service, { flows, credentials: { ir: { user: "one", password: "s3cret" } } }, "full", as.ada);
  });

  test("a proposal deploys nothing until another user approves it, and then exactly what was proposed", async () => {
    const base = await activeRev();
    const nodes = replaced("g1", { name: "proposed" });
    const headers = { "service-deployment-message": "a new greeting" };
    const proposal = await propose("ada", nodes, {}, headers);
    expect(proposal).toMatchObject({
      base,
      state: "open",
      user: "ada",
      deploymentType: "nodes",
      message: "a new greeting",
      digest: expect.stringMatching(/^[\da-f]{64}$/),
      changes: [{ kind: "tab", id: "g", label: "Greetings" }],
    });
    expect(await activeRev()).toBe(base);
    const { status, body, headers: answered } = await approve("bob", proposal);
    expect({ status, body }).toMatchObject({ status: 200 });
    expect(answered["service-deployment-outcome"]).toBeDefined();
    const { rev } = JSON.parse(body) as { rev: string };
    expect(await activeRev()).toBe(rev);
    expect((await service.send("GET", "/flows", { headers: as.ada })).json()).toEqual(nodes);
    const revision = (await send("ada", "GET", `/revisions/${rev}`)).json();
    expect(revision).toMatchObject({
      parent: base,
      user: "ada",
      message: "a new greeting",
      deploymentType: "nodes",
      proposalId: proposal.id,
      approvedBy: "bob",
    });
    expect(await read(proposal.id)).toMatchObject({ state: "approved", closedBy: "bob", rev });
    expect(await auditOf(proposal.id)).toMatchObject([
      { kind: "proposal_approved", user: "bob", digest: proposal.digest, detail: `revision ${rev}, proposed by ada` },
      { kind: "proposal_created", user: "ada", digest: proposal.digest },
    ]);
    expect(await auditOf(rev)).toMatchObject([
      { kind: "deployment", user: "ada", detail: `nodes, proposal ${proposal.id} approved by bob` },
    ]);
    expect((await send("ada", "GET", "/audit:verify")).json()).toMatchObject({ intact: true });
  });

  test("the author can't approve or reject it, even with another token or over another protocol", async () => {
    const proposal = await propose("grace", replaced("g1", { name: "mine" }));
    expect(codeOf(await approve("grace", proposal))).toEqual({ status: 403, code: "own_proposal" });
    const other = bearer(await login(service, { username: "grace", scope: "flows.approve" }));
    for (const protocol of rpcProtocolNames) {
      const transport = rpcProtocols[protocol](service.url);
      const { id, digest } = proposal;
      const { approveProposal, rejectProposal } = ProposalsService.method;
      expect(await call(transport, approveProposal, { id, digest }, other)).toMatchObject({
        refused: { code: Code.PermissionDenied, reason: "own_proposal" },
      });
      expect(await call(transport, rejectProposal, { id }, other)).toMatchObject({
        refused: { reason: "own_proposal" },
      });
    }
    expect(await read(proposal.id)).toMatchObject({ state: "open" });
  });

  test("who approves needs the permission for that, not that to deploy", async () => {
    const proposal = await propose("grace", replaced("g1", { name: "approved" }));
    expect((await approve("robot", proposal)).headers["www-authenticate"]).toContain('scope="flows.approve"');
    expect((await tryPropose("bob", flows)).headers["www-authenticate"]).toContain('scope="flows.propose"');
    expect((await approve("bob", proposal)).status).toBe(200);
  });

  test("another digest than that of the proposal is refused, as is none", async () => {
    const proposal = await propose("ada", replaced("g1", { name: "digest" }));
    const other = await propose("ada", replaced("g1", { name: "other" }));
    expect(other.digest).not.toBe(proposal.digest);
    const reply = await approve("bob", { ...proposal, digest: other.digest });
    expect(codeOf(reply)).toEqual({ status: 409, code: "proposal_changed" });
    expect((await approve("bob", { ...proposal, digest: "" })).status).toBe(400);
    const { approveProposal } = ProposalsService.method;
    const transport = rpcProtocols.Connect(service.url);
    expect(await call(transport, approveProposal, { id: proposal.id, digest: other.digest }, as.bob)).toMatchObject({
      refused: { code: Code.FailedPrecondition, reason: "proposal_changed" },
    });
    expect(await read(proposal.id)).toMatchObject({ state: "open" });
  });

  test("any other deployment makes it stale, which it says", async () => {
    const proposal = await propose("ada", replaced("g1", { name: "late" }));
    const rev = await deploy(service, { flows: replaced("i1", { name: "theirs" }) }, "nodes", as.ada);
    const reason = `its base was replaced, the active revision is "${rev}": propose the change again, based on that`;
    expect(await read(proposal.id)).toMatchObject({ state: "stale", reason });
    const reply = await approve("bob", proposal);
    expect({ status: reply.status, body: reply.json() }).toEqual({
      status: 409,
      body: { code: "proposal_stale", message: `proposal ${proposal.id}: ${reason}` },
    });
    // Also if the same flows are active again.
    await deploy(service, { flows }, "nodes", as.ada);
    expect((await approve("bob", proposal)).status).toBe(409);
    const listed = (await send("bob", "GET", "/proposals?state=stale")).json() as { proposals: Proposal[] };
    expect(listed.proposals.map(({ id }) => id)).toContain(proposal.id);
    expect(codeOf(await tryPropose("ada", flows, { rev: proposal.base }))).toMatchObject({
      status: 409,
      code: "version_mismatch",
    });
  });

  test("of concurrent approvals exactly one deploys", async () => {
    const proposal = await propose("ada", replaced("g1", { name: "twice" }));
    const before = await activeRev();
    const replies = await Promise.all(
      Array.from({ length: 8 }, (_, at) => approve(at % 2 ? "bob" : "grace", proposal)),
    );
    expect(replies.filter(({ status }) => status === 200)).toHaveLength(1);
    expect(new Set(replies.filter(({ status }) => status === 409).map((reply) => codeOf(reply).code))).toEqual(
      new Set(["proposal_closed"]),
    );
    const { revisions } = (await send("ada", "GET", "/revisions?pageSize=2")).json() as {
      revisions: { rev: string }[];
    };
    expect(revisions[1]?.rev).toBe(before);
  });

  test("is withdrawn by the proposer only, and rejected by others, with a reason", async () => {
    const first = await propose("ada", replaced("g1", { name: "withdrawn" }));
    const withdraw = (who: Name) => send(who, "POST", `/proposals/${first.id}:withdraw`, { reason: "a mistake" });
    expect(codeOf(await withdraw("grace"))).toEqual({ status: 403, code: "foreign_proposal" });
    expect((await withdraw("ada")).json()).toMatchObject({ state: "withdrawn", closedBy: "ada", reason: "a mistake" });
    expect(codeOf(await approve("bob", first))).toEqual({ status: 409, code: "proposal_closed" });
    expect(codeOf(await withdraw("ada"))).toEqual({ status: 409, code: "proposal_closed" });
    const second = await propose("ada", replaced("g1", { name: "rejected" }));
    const rejected = await send("bob", "POST", `/proposals/${second.id}:reject`, { reason: "no" });
    expect(rejected.json()).toMatchObject({ state: "rejected", closedBy: "bob", reason: "no" });
    const reply = await approve("grace", second);
    expect((reply.json() as { message: string }).message).toMatch(
      /^proposal [\da-f]+: it was rejected by "bob" at \S+, and can't be approved, rejected or withdrawn any more$/,
    );
    expect(await auditOf(second.id)).toMatchObject([{ kind: "proposal_rejected" }, { kind: "proposal_created" }]);
  });

  test("its plan is that of the deployment, and credentials are shown by name only, as changed", async () => {
    const nodes = replaced("g1", { name: "planned" });
    for (const password of ["s3cret", "a guess"]) {
      const proposal = await propose("ada", nodes, { credentials: { ir: { user: "one", password } } });
      const plan = await send("bob", "GET", `/proposals/${proposal.id}:plan`);
      expect(plan.json()).toMatchObject({
        rev: proposal.base,
        diff: {
          containers: [
            { id: "g", nodes: [{ id: "g1", change: "changed" }] },
            { id: "i", nodes: [{ id: "ir", credentials: { changed: ["password", "user"] } }] },
          ],
        },
      });
      const full = await send("bob", "GET", `/proposals/${proposal.id}?view=FULL`);
      expect((full.json() as { flows: Node[] }).flows).toEqual(nodes);
      expect(`${plan.body}${full.body}${(await send("bob", "GET", "/proposals")).body}`).not.toContain(password);
    }
    const stored = await readFile(join(service.dataDir, "flowgate.db"));
    const log = await readFile(join(service.dataDir, "flowgate.db-wal"));
    expect(Buffer.concat([stored, log]).includes("a guess")).toBe(false);
  });

  test("shows all credentials as changed if encrypted ones replace them", async () => {
    const encrypted = encryptCredentials(
      credentialSecret,
      new Map([
        [
          "ir",
          new Map([
            ["user", "one"],
            ["password", "s3cret"],
          ]),
        ],
      ]),
    );
    const proposal = await propose("ada", replaced("g1", { name: "encrypted" }), { credentials: { $: encrypted } });
    const plan = (await send("bob", "GET", `/proposals/${proposal.id}:plan`)).json();
    expect(plan).toMatchObject({
      diff: { containers: [{ id: "g" }, { nodes: [{ credentials: { changed: ["password", "user"] } }] }] },
    });
    expect((await approve("bob", proposal)).status).toBe(200);
    const { rev } = (await read(proposal.id)) as { rev: string };
    const diff = (await send("ada", "GET", `/revisions/${rev}:diff`)).json() as { diff: { containers: unknown[] } };
    expect(diff.diff.containers).toHaveLength(1);
  });

  test("carries credentials, which are those of the nodes after the approval", async () => {
    const proposal = await propose("ada", flows, { credentials: { ir: { user: "two" } } });
    expect((await approve("bob", proposal)).status).toBe(200);
    const { rev } = (await read(proposal.id)) as { rev: string };
    const diff = await send("ada", "GET", `/revisions/${rev}:diff`);
    expect(diff.json()).toMatchObject({
      diff: { containers: [{ nodes: [{ credentials: { changed: ["user"], removed: ["password"] } }] }] },
    });
  });

  test("has the flows of a deployment: invalid and unchanged ones are refused, and reload", async () => {
    expect(codeOf(await tryPropose("ada", [{ id: "x", type: "" }]))).toMatchObject({ status: 400 });
    expect(codeOf(await tryPropose("ada", flows))).toEqual({ status: 400, code: "nothing_proposed" });
    const reload = await tryPropose("ada", flows, {}, { "service-deployment-type": "reload" });
    expect(codeOf(reload)).toEqual({ status: 400, code: "invalid_deployment_type" });
    expect((await send("ada", "GET", "/proposals/unknown")).status).toBe(404);
    expect((await send("ada", "GET", "/proposals?state=other")).status).toBe(400);
    expect((await send("ada", "GET", "/proposals?pageToken=x")).status).toBe(400);
  });

  test("its permission can be limited to tabs, for proposing and approving", async () => {
    const invoices = await propose("invoicing", replaced("i1", { name: "invoicing" }));
    const refused = await tryPropose("invoicing", replaced("g1", { name: "invoicing" }));
    expect(refused.status).toBe(401);
    expect(refused.headers["www-authenticate"]).toMatch(/the tab 'Greetings' \('g'\).*scope="flows\.propose"/);
    expect((await approve("invoicing", invoices)).status).toBe(403);
    const greetings = await propose("ada", replaced("g1", { name: "ada" }));
    for (const verb of ["approve", "reject"]) {
      const body = verb === "approve" ? { digest: greetings.digest } : {};
      const reply = await send("invoicing", "POST", `/proposals/${greetings.id}:${verb}`, body);
      expect(reply.headers["www-authenticate"]).toMatch(/the tab 'Greetings' \('g'\).*scope="flows\.approve"/);
    }
    const theirs = await propose("ada", replaced("i1", { name: "ada" }));
    expect((await approve("invoicing", theirs)).status).toBe(200);
  });

  test("a robot's token is named in the history and in the audit", async () => {
    const tokenOf = async (who: Name, name: string, scope: string) =>
      bearer(((await send(who, "POST", "/tokens", { name, scope })).json() as { accessToken: string }).accessToken);
    const ci = await tokenOf("ada", "ci", "flows.propose");
    const bot = await tokenOf("emergency", "merge bot", "flows.approve");
    const body = JSON.stringify({ flows: replaced("g1", { name: "robots" }) });
    const created = await service.send("POST", "/proposals", { headers: { ...ci, ...json, ...v2 }, body });
    const { id, digest } = created.json() as Proposal;
    const approved = { headers: { ...bot, ...json }, body: JSON.stringify({ digest }) };
    const { rev } = (await service.send("POST", `/proposals/${id}:approve`, approved)).json() as { rev: string };
    expect((await send("ada", "GET", `/revisions/${rev}`)).json()).toMatchObject({
      user: "ada",
      tokenName: "ci",
      approvedBy: "emergency",
      approvedByTokenName: "merge bot",
    });
    expect(await read(id)).toMatchObject({ tokenName: "ci", closedByTokenName: "merge bot" });
    expect(await auditOf(id)).toMatchObject([{ tokenName: "merge bot" }, { tokenName: "ci" }]);
  });

  test("lists and events have what happened", async () => {
    const proposal = await propose("grace", replaced("g1", { name: "event" }));
    await send("bob", "POST", `/proposals/${proposal.id}:reject`, { reason: "no" });
    const { logs } = (await send("ada", "GET", "/logs?kinds=proposal&pageSize=2")).json() as { logs: object[] };
    expect(logs).toMatchObject([
      { proposal: { id: proposal.id, state: "rejected", user: "bob", proposedBy: "grace", reason: "no" } },
      { proposal: { id: proposal.id, state: "open", user: "grace", proposedBy: "grace" } },
    ]);
    const { listProposals } = ProposalsService.method;
    const input = { user: "grace", state: ProposalState.REJECTED, pageSize: 1 };
    expect(await call(rpcProtocols.gRPC(service.url), listProposals, input, as.bob)).toMatchObject({
      message: { proposals: [{ id: proposal.id, state: ProposalState.REJECTED }] },
    });
  });
});

describe("approvals that are required for a tab", () => {
  let tools: ToolService;

  beforeAll(async () => {
    service = tools = await startToolService({
      config: { ...withoutRuntime, adminAuth: { users }, approvals: { required: ["Invoices"] } },
    });
    as = await loginAll(service);
    await deploy(service, { flows: replaced("i1", { name: "first" }) }, "full", as.emergency);
    await deploy(service, { flows }, "full", as.emergency);
  });
  afterAll(() => service?.[Symbol.asyncDispose]());

  const invoices = 'the tab "Invoices" ("i")';

  async function refused(reply: Promise<Reply>): Promise<string> {
    const before = await activeRev();
    const { status, body } = await reply;
    expect({ status, body: JSON.parse(body), rev: await activeRev() }).toMatchObject({
      status: 403,
      body: { code: "approval_required" },
      rev: before,
    });
    const { message } = JSON.parse(body) as { message: string };
    expect(message).toContain("propose it, for example with flowgate propose");
    return /^The deployment would change (.*), which needs the approval/.exec(message)?.[1] ?? "";
  }

  test("are needed for it by every operation, also with all permissions", async () => {
    const before = await activeRev();
    const deployed = (nodes: readonly Node[], more: object = {}, headers: Record<string, string> = {}) =>
      tryDeploy(service, { flows: nodes, ...more }, "nodes", { ...as.ada, ...headers });
    expect(await refused(deployed(replaced("i1", { name: "x" })))).toBe(invoices);
    expect(await refused(deployed(replaced("i", { label: "Bills" })))).toBe(invoices);
    expect(await refused(deployed(replaced("g", { label: "Invoices" })))).toBe('the tab "Greetings" ("g")');
    expect(await refused(deployed(replaced("g1", { z: "i" })))).toContain(invoices);
    expect(await refused(deployed(flows.filter(({ id, z }) => id !== "i" && z !== "i")))).toBe(invoices);
    expect(await refused(deployed(flows, { credentials: { ir: { user: "x" } } }))).toBe(invoices);
    // What protected tabs may use.
    expect(await refused(deployed(replaced("shared", { name: "x" })))).toBe("nodes outside of tabs");
    const subflow = { id: "s", type: "subflow", name: "S", in: [], out: [] };
    expect(await refused(deployed([...flows, subflow]))).toBe('the subflow "s"');
    // Merged with what was deployed since.
    await deploy(service, { flows: replaced("g1", { name: "theirs" }) }, "nodes", as.ada);
    const merging = { "service-deployment-merge": "true" };
    expect(await refused(deployed(replaced("i1", { name: "x" }), { rev: before }, merging))).toBe(invoices);
    await deploy(service, { flows }, "nodes", as.ada);
    const { revisions } = (await send("ada", "GET", "/revisions")).json() as { revisions: { rev: string }[] };
    const first = revisions.at(-2)?.rev ?? "";
    expect(await refused(send("ada", "POST", `/revisions/${first}:restore`, {}))).toBe(invoices);
    expect(await refused(send("ada", "PUT", "/flow/i", { label: "Invoices", nodes: [] }))).toBe(invoices);
    expect(await refused(send("ada", "POST", "/flow/i:disable", {}))).toBe(invoices);
    expect(await refused(send("ada", "DELETE", "/flow/i"))).toBe(invoices);
    expect(await refused(send("ada", "POST", "/flow", { label: "Invoices", nodes: [] }))).toMatch(
      /^the tab "Invoices"/,
    );
    for (const protocol of rpcProtocolNames) {
      const transport = rpcProtocols[protocol](service.url);
      expect(await call(transport, FlowsService.method.deleteFlow, { id: "i" }, as.ada)).toMatchObject({
        refused: { code: Code.PermissionDenied, reason: "approval_required" },
      });
    }
  });

  test("are needed for it on the listener of Node-RED's tools", async () => {
    const token = bearer(await loginTool(tools, "emergency"));
    const send = (nodes: readonly Node[]) =>
      tools.sendTool("POST", "/flows", { headers: { ...token, ...json }, body: JSON.stringify(nodes) });
    expect(await refused(send(replaced("i1", { name: "x" })))).toBe(invoices);
    expect((await send(replaced("g1", { name: "by a tool" }))).status).toBe(204);
    await deploy(service, { flows }, "nodes", as.ada);
  });

  test("are not needed for other tabs, undoing those, plans and reloads", async () => {
    expect((await tryDeploy(service, { flows: replaced("g1", { name: "free" }) }, "nodes", as.ada)).status).toBe(200);
    expect((await send("ada", "POST", "/flows:undo", {})).status).toBe(200);
    expect((await send("ada", "POST", "/flow/g:disable", {})).status).toBe(200);
    expect((await send("ada", "POST", "/flow/g:enable", {})).status).toBe(200);
    expect((await tryDeploy(service, { flows: [] }, "reload", as.ada)).status).toBe(200);
    const plan = send("ada", "POST", "/flows:plan", { flows: replaced("i1", { name: "x" }) });
    expect((await plan).status).toBe(200);
  });

  test("are given by proposals, and needed to undo them", async () => {
    const proposal = await propose("ada", replaced("i1", { name: "approved" }));
    expect((await approve("bob", proposal)).status).toBe(200);
    expect(await refused(send("ada", "POST", "/flows:undo", {}))).toBe(invoices);
    const back = await propose("ada", flows);
    expect((await approve("grace", back)).status).toBe(200);
  });

  test("are not needed with a permission that nothing else includes, which is recorded", async () => {
    const change = { flows: replaced("i1", { name: "emergency" }) };
    const withStar = bearer(await login(service, { username: "emergency", scope: "*" }));
    expect(await refused(tryDeploy(service, change, "nodes", withStar))).toBe(invoices);
    const { scope: _scope, ...withoutScope } = tokenParameters({ username: "emergency" });
    const body = new URLSearchParams(withoutScope).toString();
    const issued = (await service.send("POST", "/auth/token", { headers: form, body })).json() as TokenResponse;
    expect(issued.scope).toBe("*");
    expect(await refused(tryDeploy(service, change, "nodes", bearer(issued.access_token)))).toBe(invoices);
    await expect(login(service, { username: "ada", scope: "* flows.deploy_unapproved" })).rejects.toThrow(
      "invalid_scope",
    );
    const rev = await deploy(service, change, "nodes", as.emergency);
    expect(await auditOf(rev)).toMatchObject([
      { kind: "deployment", user: "emergency" },
      { kind: "unapproved_deployment", user: "emergency", detail: invoices },
    ]);
    const free = await deploy(
      service,
      { flows: replaced("g1", { name: "free" }, change.flows) },
      "nodes",
      as.emergency,
    );
    expect(await auditOf(free)).toHaveLength(1);
  });
});

test("approvals of all changes can be required, and stay so over a restart and kill -9", async () => {
  const dataDir = await mkdtemp(join(tmpdir(), "flowgate-proposals-"));
  const config = { ...withoutRuntime, adminAuth: { users }, approvals: { required: "all" } };
  try {
    await using stack = new AsyncDisposableStack();
    const start = async () => stack.use(await startService({ config, dataDir }));
    let running = await start();
    as = await loginAll(running);
    expect(codeOf(await tryDeploy(running, { flows }, "full", as.ada))).toEqual({
      status: 403,
      code: "approval_required",
    });
    await running.stop();
    running = await start();
    const proposeTo = async (to: Service) => {
      const body = JSON.stringify([...flows, comment(randomBytes(4).toString("hex"), "g")]);
      const reply = await to.send("POST", "/proposals", { headers: { ...as.ada, ...json }, body });
      return reply.json() as Proposal;
    };
    const history = async (to: Service) =>
      ((await send("ada", "GET", "/revisions", undefined, to)).json() as { revisions: { rev: string }[] }).revisions;
    for (const killed of ["at once", "when it is logged", "when it is acknowledged"] as const) {
      const proposal = await proposeTo(running);
      const { length: count } = await history(running);
      const logged = running.untilLogged(new RegExp(`"proposal":"${proposal.id}"`));
      logged.catch(() => {});
      const approving = approve("bob", proposal, running).catch(() => undefined);
      const reply = killed === "when it is acknowledged" ? await approving : undefined;
      if (killed === "when it is logged") {
        await logged;
      }
      await running.kill9();
      running = await start();
      const { state, rev } = (await read(proposal.id, running)) as Proposal;
      const revisions = await history(running);
      const wasDeployed = state === "approved";
      expect({ killed, state }).toEqual({ killed, state: wasDeployed || killed !== "at once" ? "approved" : "open" });
      expect({ first: revisions[0]?.rev === rev, count: revisions.length }).toEqual({
        first: wasDeployed,
        count: wasDeployed ? count + 1 : count,
      });
      expect((await approve("grace", proposal, running)).status).toBe(wasDeployed ? 409 : 200);
      expect(reply?.status ?? 200).toBe(200);
      expect(await history(running)).toHaveLength(count + 1);
      expect((await send("ada", "GET", "/audit:verify", undefined, running)).json()).toMatchObject({ intact: true });
    }
    const expiring = await proposeTo(running);
    const tampered = await proposeTo(running);
    await running.stop();
    {
      using db = new DatabaseSync(join(dataDir, "flowgate.db"));
      db.prepare("UPDATE proposal SET expires_at_ms = created_at_ms WHERE id = ?").run(expiring.id);
      db.prepare("UPDATE proposal SET message = 'another' WHERE id = ?").run(tampered.id);
    }
    running = await start();
    expect(await read(expiring.id, running)).toMatchObject({ state: "expired" });
    const reply = await approve("bob", expiring, running);
    expect(reply.json()).toMatchObject({
      code: "proposal_closed",
      message: expect.stringMatching(/^proposal [\da-f]+: it has expired at \S+Z, and can't be approved/),
    });
    expect(codeOf(await approve("bob", tampered, running))).toEqual({ status: 409, code: "proposal_changed" });
  } finally {
    await rm(dataDir, { recursive: true });
  }
});

test("without users there is nobody to approve", async () => {
  service = await startService({ config: withoutRuntime });
  await using _ = service;
  const body = JSON.stringify(flows);
  const reply = await service.send("POST", "/proposals", { headers: json, body });
  expect(codeOf(reply)).toEqual({ status: 400, code: "user_required" });
});
