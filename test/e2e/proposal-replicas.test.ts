import { afterAll, beforeAll, expect, test } from "vitest";
import { createDatabase } from "../postgres/postgres.ts";
import { deploy, tryDeploy } from "./deploy.ts";
import { type Node, tab } from "./flow-builders.ts";
import { bearer, json, v2 } from "./rest.ts";
import { eventually, type Service, startService, withoutRuntime } from "./service.ts";
import { login, user } from "./users.ts";
import { watch, watchProtocols } from "./watch-events.ts";

const comment = (id: string, z: string, name = id): Node => ({ id, type: "comment", z, x: 1, y: 1, name });
const invoices = { ...tab("i"), label: "Invoices" };
const flowsWith = (name: string, other = "other"): Node[] => [
  invoices,
  comment("i1", "i", name),
  tab("g"),
  comment("g1", "g", other),
];

type Proposal = { readonly id: string; readonly base: string; readonly digest: string; readonly state: string };
type AuditEntry = { readonly kind: string; readonly user: string; readonly subject: string; readonly digest?: string };

const resources = new AsyncDisposableStack();
let replicas: [first: Service, second: Service, third: Service];
let ada: Record<string, string>;
let bob: Record<string, string>;

beforeAll(async () => {
  const database = resources.use(await createDatabase());
  const config = {
    ...withoutRuntime,
    store: database.url,
    credentialSecret: "a secret that all replicas share",
    adminAuth: { users: [user("ada", "*"), user("bob", "*")] },
    approvals: { required: ["Invoices"] },
  };
  // The first one creates the schema.
  const first = resources.use(await startService({ config }));
  const [second, third] = await Promise.all([startService({ config }), startService({ config })]);
  resources.use(second);
  resources.use(third);
  replicas = [first, second, third];
  // Tokens of one replica are valid on all.
  ada = bearer(await login(first, { username: "ada" }));
  bob = bearer(await login(second, { username: "bob" }));
  await proposeAndApprove("first");
});
afterAll(() => resources[Symbol.asyncDispose]());

async function propose(name: string, at = replicas[0], other?: string): Promise<Proposal> {
  const body = JSON.stringify({ flows: flowsWith(name, other) });
  const reply = await at.send("POST", "/proposals", { headers: { ...ada, ...json, ...v2 }, body });
  expect({ status: reply.status, body: reply.body }).toMatchObject({ status: 201 });
  return reply.json() as Proposal;
}

const decide = (at: Service, verb: string, { id, digest }: Proposal, who = bob) =>
  at.send("POST", `/proposals/${id}:${verb}`, {
    headers: { ...who, ...json, ...v2 },
    body: JSON.stringify(verb === "approve" ? { digest } : {}),
  });
const codeOf = (reply: { json(): unknown }) => (reply.json() as { code?: string }).code;
const stateAt = async (at: Service, { id }: Proposal) =>
  ((await at.send("GET", `/proposals/${id}`, { headers: ada })).json() as Proposal).state;
const flowsAt = async (at: Service) => (await at.send("GET", "/flows", { headers: ada })).json();

async function proposeAndApprove(name: string): Promise<string> {
  const reply = await decide(replicas[1], "approve", await propose(name));
  expect({ status: reply.status, body: reply.body }).toMatchObject({ status: 200 });
  return (reply.json() as { rev: string }).rev;
}

test("what is proposed at one replica is approved by another user at another one, and deployed on all", async () => {
  const [first, second, third] = replicas;
  await using events = watch(watchProtocols["SSE"] as (typeof watchProtocols)[string], third.url, {}, ada);
  await events.until(({ kind }) => kind === "snapshotEnd");
  const proposal = await propose("reviewed");
  await events.until(({ kind }) => kind === "proposal");
  for (const replica of replicas) {
    expect(await stateAt(replica, proposal)).toBe("open");
    expect(codeOf(await decide(replica, "approve", proposal, ada))).toBe("own_proposal");
  }
  const reply = await decide(second, "approve", proposal);
  expect(reply.status).toBe(200);
  const { rev } = reply.json() as { rev: string };
  for (const replica of replicas) {
    await eventually(async () => expect(await flowsAt(replica)).toEqual(flowsWith("reviewed")));
    expect(await stateAt(replica, proposal)).toBe("approved");
    expect(codeOf(await decide(replica, "approve", proposal))).toBe("proposal_closed");
  }
  expect((await third.send("GET", `/revisions/${rev}`, { headers: ada })).json()).toMatchObject({
    user: "ada",
    approvedBy: "bob",
    proposalId: proposal.id,
  });
  const { entries } = (await first.send("GET", "/audit?pageSize=50", { headers: ada })).json() as {
    entries: AuditEntry[];
  };
  expect(entries.filter(({ subject }) => subject === proposal.id)).toMatchObject([
    { kind: "proposal_approved", user: "bob", digest: proposal.digest },
    { kind: "proposal_created", user: "ada", digest: proposal.digest },
  ]);
  expect((await third.send("GET", "/audit:verify", { headers: ada })).json()).toMatchObject({ intact: true });
});

test("a deployment at a third replica makes it stale for all, and no replica deploys without the approval", async () => {
  const [first, second, third] = replicas;
  const rev = await proposeAndApprove("base");
  const proposal = await propose("stale");
  for (const replica of replicas) {
    const refused = await tryDeploy(replica, { flows: flowsWith("unapproved") }, "full", ada);
    expect([refused.status, codeOf(refused)]).toEqual([403, "approval_required"]);
  }
  // Another tab needs no approval.
  const other = await deploy(third, { rev, flows: flowsWith("base", "theirs") }, "full", ada);
  for (const replica of [first, second, third]) {
    expect(await stateAt(replica, proposal)).toBe("stale");
    const reply = await decide(replica, "approve", proposal);
    expect([reply.status, codeOf(reply), reply.body.includes(other)]).toEqual([409, "proposal_stale", true]);
  }
  await eventually(async () => expect(await flowsAt(first)).toEqual(flowsWith("base", "theirs")));
});

test("of approvals, rejections and deployments at all replicas at the same time, one has an effect", async () => {
  await proposeAndApprove("start");
  for (let round = 0; round < 3; round++) {
    const at = replicas[round % replicas.length];
    const proposal = await propose(`round ${round}`, at, "other");
    const replies = await Promise.all(
      replicas.flatMap((replica) => [
        decide(replica, "approve", proposal),
        decide(replica, "reject", proposal),
        decide(replica, "approve", proposal),
      ]),
    );
    const accepted = replies.filter(({ status }) => status === 200);
    expect(accepted).toHaveLength(1);
    expect(new Set(replies.filter(({ status }) => status !== 200).map((reply) => codeOf(reply)))).toEqual(
      new Set(["proposal_closed"]),
    );
    const isApproved = (await stateAt(replicas[0], proposal)) === "approved";
    const active = JSON.stringify(await flowsAt(replicas[0]));
    expect(active.includes(`round ${round}`)).toBe(isApproved);
  }
});
