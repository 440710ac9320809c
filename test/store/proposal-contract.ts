import { randomBytes } from "node:crypto";
import { expect, test } from "vitest";
import type { AuditRecord } from "../../src/store/audit-store.ts";
import type { Approval } from "../../src/store/flow-store.ts";
import { type ProposalDraft, stateOf } from "../../src/store/proposal-store.ts";
import type { Store } from "../../src/store/store.ts";
import { documentOf } from "../../packages/flows/test/builders.ts";
import { draft } from "./builders.ts";
import type { StoreLocation } from "./contract.ts";

const ada = { by: "ada", token: { id: "0a", name: "ci" }, address: "10.0.0.1", protocol: "rest", requestId: "r-1" };
const bob = {
  by: "bob",
  token: { id: "0b", name: undefined },
  address: "10.0.0.2",
  protocol: "grpc",
  requestId: "r-2",
};
const limits = { perUser: 100, total: 100 };
const lifetimeMs = 60_000;

function proposal(base: string, init: Partial<ProposalDraft> = {}): ProposalDraft {
  return {
    ...ada,
    id: randomBytes(8).toString("hex"),
    base,
    deploymentType: "nodes",
    message: "Zoë 🔑",
    waitMs: 30_000,
    undoOnFailure: true,
    maxErrors: 4_294_967_295,
    changes: [
      { id: "a", kind: "tab", labels: ["A", undefined] },
      { id: "", kind: "global", labels: [] },
    ],
    modules: [
      { name: "contrib-one", version: "1.0.0", integrity: "sha512-x" },
      { name: "contrib-two", version: "", integrity: undefined },
    ],
    digest: "d1",
    flows: documentOf([{ id: "n", type: "inject", name: "Zoë 🔑" }]),
    credentials: `{"secret":"s3cret of the proposal"}`,
    lifetimeMs,
    ...init,
  };
}

const created = (id: string): AuditRecord => ({ kind: "proposal_created", origin: ada, subject: id });
const rejected = (id: string): AuditRecord => ({ kind: "proposal_rejected", origin: bob, subject: id });
const approvalOf = (proposalId: string): Approval => ({ proposalId, digest: "d1", origin: bob, reason: "fine" });

async function create(store: Store, init: Partial<ProposalDraft> = {}, max = limits) {
  const values = proposal(store.flows.active().rev, init);
  return store.proposals.create(values, created(values.id), max);
}

/** The contract of `ProposalStore`, and of commits that deploy a proposal. */
export function proposalStoreContract(createLocation: () => Promise<StoreLocation>): void {
  test("a proposal is kept with its values, and with its content where that is asked for", async () => {
    await using location = await createLocation();
    const values = proposal("");
    {
      await using store = await location.open();
      const entry = await create(store, { ...values, base: store.flows.active().rev });
      const { flows, credentials, lifetimeMs: _, base: _base, ...rest } = values;
      expect(entry).toEqual({
        ...rest,
        base: store.flows.active().rev,
        seq: 1,
        createdAtMs: expect.any(Number),
        expiresAtMs: entry.createdAtMs + lifetimeMs,
        nodeCount: 1,
        sizeBytes: flows.json.length,
        closing: undefined,
      });
      expect(await store.proposals.findEntry(values.id)).toEqual(entry);
      const found = await store.proposals.find(values.id);
      expect(found).toMatchObject({ ...entry, credentials });
      expect(found?.flows.json.toString()).toBe(flows.json.toString());
      expect(await store.proposals.find("other")).toBeUndefined();
      expect(await store.proposals.findEntry("other")).toBeUndefined();
    }
    await using store = await location.open();
    expect(await store.proposals.findEntry(values.id)).toMatchObject({ by: "ada", message: "Zoë 🔑" });
    expect((await store.audit.list({ limit: 10, order: "oldest" })).entries).toMatchObject([created(values.id)]);
  });

  test("only the active revision can be changed by a proposal", async () => {
    await using location = await createLocation();
    await using store = await location.open();
    const { rev } = store.flows.active();
    await store.flows.commit(draft(rev));
    await expect(create(store, { base: rev })).rejects.toMatchObject({ reason: "version_mismatch" });
    expect((await store.proposals.list({ limit: 10 })).proposals).toEqual([]);
  });

  test("a commit with an approval closes the proposal in the same transaction, and records both people", async () => {
    await using location = await createLocation();
    await using store = await location.open();
    const { id, base } = await create(store);
    const revision = await store.flows.commit(draft(base, { ...ada, approval: approvalOf(id) }));
    const approval = { proposalId: id, by: "bob", token: bob.token };
    expect(revision).toMatchObject({ by: "ada", token: ada.token, approval });
    expect(await store.flows.findEntry(revision.rev)).toMatchObject({ approval });
    expect(await store.proposals.findEntry(id)).toMatchObject({
      closing: { state: "approved", by: "bob", token: bob.token, reason: "fine", rev: revision.rev },
    });
    const { entries } = await store.audit.list({ limit: 10, order: "oldest" });
    expect(entries.slice(1)).toMatchObject([
      {
        kind: "proposal_approved",
        origin: bob,
        subject: id,
        detail: `revision ${revision.rev}, proposed by ada`,
        digest: "d1",
      },
      { kind: "deployment", origin: ada, subject: revision.rev, detail: `full, proposal ${id} approved by bob` },
    ]);
    expect(await store.audit.verify()).toMatchObject({ problem: undefined, revisions: 1 });
  });

  test("of concurrent approvals exactly one is committed, also by several processes", async () => {
    await using location = await createLocation();
    await using store = await location.open();
    await using another = await location.open();
    const { id, base } = await create(store);
    const commit = (each: Store) => each.flows.commit(draft(base, { ...ada, approval: approvalOf(id) }));
    const outcomes = await Promise.allSettled([commit(store), commit(another), commit(store), commit(another)]);
    expect(outcomes.filter(({ status }) => status === "fulfilled")).toHaveLength(1);
    const { revisions } = await store.flows.list({ limit: 10 });
    expect(revisions).toHaveLength(2);
  });

  test("a proposal that was closed or has expired is not deployed, nor is one that does not exist", async () => {
    await using location = await createLocation();
    await using store = await location.open();
    const { id, base } = await create(store);
    expect(await store.proposals.close(id, { state: "rejected", reason: "no" }, rejected(id))).toMatchObject({
      closing: { state: "rejected", by: "bob", reason: "no", rev: undefined },
    });
    const expired = await create(store, { lifetimeMs: 0 });
    const before = await store.audit.list({ limit: 10, order: "oldest" });
    for (const proposalId of [id, expired.id, "other"]) {
      const commit = store.flows.commit(draft(base, { approval: approvalOf(proposalId) }));
      await expect(commit).rejects.toMatchObject({ reason: "proposal_closed" });
      const closing = { state: "withdrawn", reason: undefined } as const;
      expect(await store.proposals.close(proposalId, closing, rejected(proposalId))).toBeUndefined();
    }
    expect(store.flows.active().rev).toBe(base);
    expect(await store.audit.list({ limit: 10, order: "oldest" })).toEqual(before);
  });

  test("a commit that loses a race does not close the proposal", async () => {
    await using location = await createLocation();
    await using store = await location.open();
    const { id, base } = await create(store);
    await store.flows.commit(draft(base));
    const commit = store.flows.commit(draft(base, { approval: approvalOf(id) }));
    await expect(commit).rejects.toMatchObject({ reason: "version_mismatch" });
    const entry = await store.proposals.findEntry(id);
    expect(entry?.closing).toBeUndefined();
    expect(entry && stateOf(entry, store.flows.active().rev, Date.now())).toBe("stale");
  });

  test("lists by state and user, newest first, in pages", async () => {
    await using location = await createLocation();
    await using store = await location.open();
    const stale = await create(store);
    await store.flows.commit(draft(store.flows.active().rev));
    const gone = await create(store);
    await store.proposals.close(gone.id, { state: "rejected", reason: undefined }, rejected(gone.id));
    const expired = await create(store, { lifetimeMs: 0 });
    const open = await create(store);
    const other = await create(store, { by: "grace" });
    const activeRev = store.flows.active().rev;
    const ids = async (query: object) =>
      (await store.proposals.list({ limit: 10, ...query })).proposals.map(({ id }) => id);
    const inState = (is: string) => ids({ state: { is, activeRev, nowMs: Date.now() } });
    expect(await ids({})).toEqual([other.id, open.id, expired.id, gone.id, stale.id]);
    expect(await ids({ by: "grace" })).toEqual([other.id]);
    expect(await inState("open")).toEqual([other.id, open.id]);
    expect(await inState("expired")).toEqual([expired.id]);
    expect(await inState("stale")).toEqual([stale.id]);
    expect(await inState("rejected")).toEqual([gone.id]);
    expect(await inState("approved")).toEqual([]);
    const first = await store.proposals.list({ limit: 2 });
    expect(first.proposals.map(({ id }) => id)).toEqual([other.id, open.id]);
    expect(await ids({ limit: 2, before: first.next })).toEqual([expired.id, gone.id]);
  });

  test("limits the open proposals, of which stale and expired ones are none, by user and in total", async () => {
    await using location = await createLocation();
    await using store = await location.open();
    const max = { perUser: 2, total: 3 };
    await create(store, {}, max);
    await store.flows.commit(draft(store.flows.active().rev));
    await create(store, { lifetimeMs: 0 }, max);
    await create(store, {}, max);
    await create(store, {}, max);
    await expect(create(store, {}, max)).rejects.toMatchObject({
      reason: "limit_exceeded",
      message: "open proposal limit reached (2, approvals.maxOpenPerUser): withdraw one first",
    });
    const last = await create(store, { by: "grace" }, max);
    await expect(create(store, { by: "bob" }, max)).rejects.toMatchObject({ reason: "limit_exceeded" });
    await store.proposals.close(last.id, { state: "withdrawn", reason: undefined }, rejected(last.id));
    await create(store, { by: "bob" }, max);
  });

  test("keeps the newest of those that can't be approved any more", async () => {
    await using location = await createLocation();
    await using store = await location.open();
    const open = await create(store);
    const ids: string[] = [];
    for (let count = 0; count < 205; count += 1) {
      ids.push((await create(store, { lifetimeMs: 0 })).id);
    }
    const { proposals } = await store.proposals.list({ limit: 1_000 });
    expect(proposals.at(-1)?.id).toBe(open.id);
    // One more than are kept when another one is created.
    expect(proposals.map(({ id }) => id).slice(0, -1)).toEqual(ids.slice(-201).toReversed());
  });
}
