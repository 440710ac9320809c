import { randomBytes } from "node:crypto";
import { expect, test } from "vitest";
import type { AuditRecord } from "../../src/store/audit-store.ts";
import {
  RepeatedRequest,
  type RevisionDraft,
  type RevisionEvent,
  type RevisionFilter,
} from "../../src/store/flow-store.ts";
import type { Revision } from "../../src/store/revision.ts";
import type { Store } from "../../src/store/store.ts";
import type { StoredToken } from "../../src/store/token-store.ts";
import { describe, documentOf } from "../../packages/flows/test/builders.ts";
import { draft } from "./builders.ts";

/** A storage location. Each `open` opens another store on the same data, as another process would. */
export interface StoreLocation extends AsyncDisposable {
  open(): Promise<Store>;
}

/** The contract of `FlowStore`. Each adapter's test file runs it on the real database. */
export function flowStoreContract(createLocation: () => Promise<StoreLocation>): void {
  test("a new store has one revision, without flows", async () => {
    await using location = await createLocation();
    await using store = await location.open();
    await using another = await location.open();
    const root = store.flows.active();
    expect(root.flows.nodes).toEqual([]);
    expect(root.parent).toBeUndefined();
    expect(root.credentials).toEqual(new Map());
    expect(root.rev).not.toBe("");
    expect(another.flows.active()).toEqual(root);
  });

  test("a commit with an aborted signal changes nothing", async () => {
    await using location = await createLocation();
    await using store = await location.open();
    const root = store.flows.active();
    const reason = new Error("too late");
    await expect(store.flows.commit(draft(root.rev), AbortSignal.abort(reason))).rejects.toBe(reason);
    const controller = new AbortController();
    const committing = store.flows.commit(draft(root.rev), controller.signal);
    controller.abort(reason);
    await expect(committing).rejects.toBe(reason);
    expect(store.flows.active()).toBe(root);
    await store.flows.commit(draft(root.rev), new AbortController().signal);
    expect(store.flows.active().seq).toBe(root.seq + 1);
  });

  test("stores that are opened concurrently create one root revision", async () => {
    await using location = await createLocation();
    const stores = await Promise.all(Array.from({ length: 8 }, () => location.open()));
    const roots = stores.map((store) => store.flows.active());
    await Promise.all(stores.map((store) => store[Symbol.asyncDispose]()));
    expect(new Set(roots.map(({ rev }) => rev)).size).toBe(1);
  });

  test("a commit becomes the active revision, with the values of the draft", async () => {
    await using location = await createLocation();
    await using store = await location.open();
    const root = store.flows.active();
    const errorLimit = { forMs: 30_000, maxErrors: 4_294_967_295 };
    const values = draft(root.rev, { by: undefined, deploymentType: "nodes", errorLimit });
    const revision = await store.flows.commit(values);
    const { message, probationMs, errorLimit: _limit, idempotencyKey: _, ...summary } = values;
    expect(revision).toMatchObject(summary);
    expect(revision).toMatchObject({ nodeCount: 1, sizeBytes: values.flows.json.length });
    expect(await store.flows.findEntry(revision.rev)).toMatchObject({
      pinned: false,
      outcome: { state: "pending", message: undefined, missingTypes: [] },
      message,
      probationMs,
      errorLimit,
    });
    expect(Object.isFrozen(revision) && Object.isFrozen(revision.flows)).toBe(true);
    expect(revision.seq).toBe(root.seq + 1);
    expect(Math.abs(Date.now() - revision.committedAtMs)).toBeLessThan(60_000);
    expect(store.flows.active()).toBe(revision);
  });

  test("committing the same content again creates another revision", async () => {
    await using location = await createLocation();
    await using store = await location.open();
    const root = store.flows.active();
    const first = await store.flows.commit(draft(root.rev));
    const second = await store.flows.commit(draft(first.rev));
    expect(new Set([root.rev, first.rev, second.rev]).size).toBe(3);
  });

  test("active returns the same object until there is a newer revision", async () => {
    await using location = await createLocation();
    await using store = await location.open();
    await store.flows.commit(draft(store.flows.active().rev));
    const before = store.flows.active();
    await store.flows.reload();
    expect(store.flows.active()).toBe(before);
    await store.flows.commit(draft(before.rev));
    expect(store.flows.active()).not.toBe(before);
  });

  test("reports commits of another store when it reads storage or loses a race", async () => {
    await using location = await createLocation();
    await using here = await location.open();
    await using there = await location.open();
    const events = collect(here);
    const first = await there.flows.commit(draft(here.flows.active().rev));
    await here.flows.reload();
    const [one] = events;
    expect(one).toEqual({ revision: first, isOwn: false });
    expect(here.flows.active()).toBe(one?.revision);

    const second = await there.flows.commit(draft(first.rev));
    await expect(here.flows.commit(draft(first.rev))).rejects.toMatchObject({ reason: "version_mismatch" });
    expect(events.slice(1)).toEqual([{ revision: second, isOwn: false }]);
    expect(here.flows.active()).toBe(events[1]?.revision);
  });

  test("reports its own commits when they are active and before they resolve", async () => {
    await using location = await createLocation();
    await using store = await location.open();
    const events: (RevisionEvent & { wasActive: boolean; hadResolved: boolean })[] = [];
    let hadResolved = false;
    const subscription = store.flows.onRevision(({ revision, isOwn }) =>
      events.push({ revision, isOwn, wasActive: store.flows.active() === revision, hadResolved }),
    );
    const root = store.flows.active();
    const revision = await store.flows.commit(draft(root.rev));
    hadResolved = true;
    expect(events).toEqual([{ revision, isOwn: true, wasActive: true, hadResolved: false }]);
    expect(events[0]?.revision).toBe(revision);

    await store.flows.commit(draft(root.rev)).catch(() => {});
    await store.flows.reload();
    expect(events).toHaveLength(1);
    subscription[Symbol.dispose]();
    await store.flows.commit(draft(revision.rev));
    expect(events).toHaveLength(1);
  });

  test("finds every revision by its rev, with flows and credentials", async () => {
    await using location = await createLocation();
    await using store = await location.open();
    const root = store.flows.active();
    const one = await store.flows.commit(draft(root.rev, { flows: documentOf([]), by: undefined }));
    const kept = new Map([["a", { type: "inject", rev: one.rev, names: ["password"] }]]);
    const two = await store.flows.commit(draft(one.rev, { credentials: new Map(), kept }));
    const three = await store.flows.commit(draft(two.rev, { kept }));
    expect(await store.flows.find(root.rev)).toEqual(root);
    expect(await store.flows.find(one.rev)).toEqual(one);
    expect(await store.flows.find(two.rev)).toEqual(two);
    expect((await store.flows.find(two.rev))?.kept).toEqual(kept);
    expect(await store.flows.find(three.rev)).toBe(store.flows.active());
    expect(await store.flows.find("unknown")).toBeUndefined();
    expect(await store.flows.findCredentials(one.rev)).toEqual(one.credentials);
    expect(await store.flows.findCredentials("unknown")).toBeUndefined();
  });

  test("lists revisions newest first, in pages that are not shifted by commits", async () => {
    await using location = await createLocation();
    await using store = await location.open();
    const revs = [store.flows.active().rev];
    for (let count = 0; count < 4; count++) {
      const { rev } = await store.flows.commit(draft(store.flows.active().rev, { by: `author ${count}` }));
      revs.unshift(rev);
    }
    const summaries = await Promise.all(revs.map((rev) => store.flows.findEntry(rev)));
    expect(await store.flows.list({ limit: 5 })).toEqual({ revisions: summaries, next: undefined });
    const first = await store.flows.list({ limit: 2 });
    expect(first.revisions).toEqual(summaries.slice(0, 2));
    await store.flows.commit(draft(store.flows.active().rev));
    const second = await store.flows.list({ limit: 2, before: first.next });
    expect(second.revisions).toEqual(summaries.slice(2, 4));
    expect(await store.flows.list({ limit: 2, before: second.next })).toEqual({
      revisions: summaries.slice(4),
      next: undefined,
    });
  });

  test("lists the revisions that match a filter", async () => {
    await using location = await createLocation();
    await using store = await location.open();
    const commit = (init: Partial<RevisionDraft>) => store.flows.commit(draft(store.flows.active().rev, init));
    const root = store.flows.active();
    const one = await commit({ by: "ada", deploymentType: "nodes" });
    const two = await commit({ by: "bob" });
    const three = await commit({ by: "ada" });
    await store.flows.update(two.rev, { pinned: true, outcome: failed });
    const revs = async (filter: RevisionFilter, limit = 10) =>
      (await store.flows.list({ limit, filter })).revisions.map(({ rev }) => rev);
    expect(await revs({ by: "ada" })).toEqual([three.rev, one.rev]);
    expect(await revs({ by: "ada" }, 1)).toEqual([three.rev]);
    expect(await revs({ by: "ada", deploymentType: "nodes" })).toEqual([one.rev]);
    expect(await revs({ outcome: "failed" })).toEqual([two.rev]);
    expect(await revs({ outcome: "replaced" })).toEqual([one.rev, root.rev]);
    expect(await revs({ pinned: true })).toEqual([two.rev]);
    expect(await revs({ pinned: false })).toEqual([three.rev, one.rev, root.rev]);
    expect(await revs({ fromMs: three.committedAtMs + 1 })).toEqual([]);
    expect(await revs({ fromMs: root.committedAtMs, untilMs: three.committedAtMs + 1 })).toHaveLength(4);
    expect(await revs({ untilMs: root.committedAtMs })).toEqual([]);
  });

  test("updates the given properties of a revision, also of the active one, and keeps the others", async () => {
    await using location = await createLocation();
    await using store = await location.open();
    const { rev } = await store.flows.commit(draft(store.flows.active().rev, { message: "first", probationMs: 5 }));
    expect(await store.flows.update(rev, { outcome: failed })).toMatchObject({ message: "first", outcome: failed });
    expect(await store.flows.update(rev, { message: undefined, pinned: true })).toMatchObject({
      message: undefined,
      pinned: true,
      probationMs: 5,
      outcome: failed,
    });
    expect(await store.flows.update(rev, { probationMs: undefined })).toMatchObject({ probationMs: undefined });
    expect(await store.flows.update("unknown", { pinned: true })).toBeUndefined();
    await using again = await location.open();
    expect(await again.flows.findEntry(rev)).toEqual(await store.flows.findEntry(rev));
  });

  test("a commit marks its parent as replaced unless the outcome of the parent is known", async () => {
    await using location = await createLocation();
    await using store = await location.open();
    const one = await store.flows.commit(draft(store.flows.active().rev));
    const two = await store.flows.commit(draft(one.rev));
    await store.flows.update(two.rev, { outcome: failed });
    await store.flows.commit(draft(two.rev));
    expect(await store.flows.findEntry(one.rev)).toMatchObject({ outcome: { state: "replaced" } });
    expect(await store.flows.findEntry(two.rev)).toMatchObject({ outcome: failed });
  });

  test.each(["undo", "automatic_undo"] as const)("an %s marks its parent as undone for good", async (cause) => {
    await using location = await createLocation();
    await using store = await location.open();
    const { rev } = await store.flows.commit(draft(store.flows.active().rev));
    await store.flows.update(rev, { outcome: failed });
    await store.flows.commit(draft(rev, { cause }));
    const undone = { ...failed, state: "undone" };
    expect(await store.flows.findEntry(rev)).toMatchObject({ outcome: undone });
    const running = { state: "running", message: undefined, missingTypes: [] } as const;
    expect(await store.flows.update(rev, { outcome: running, message: "noticed late" })).toMatchObject({
      message: "noticed late",
      outcome: undone,
    });
  });

  test("prunes by count, but neither pinned revisions nor the active one and its parent", async () => {
    await using location = await createLocation();
    await using store = await location.open();
    const revs = [store.flows.active().rev];
    for (let count = 0; count < 7; count++) {
      revs.unshift((await store.flows.commit(draft(store.flows.active().rev))).rev);
    }
    await store.flows.update(revs[6] ?? "", { pinned: true });
    const left = async () => (await store.flows.list({ limit: 10 })).revisions.map(({ rev }) => rev);
    expect(await store.flows.prune({ maxCount: 8, maxAgeMs: undefined })).toBe(0);
    expect(await store.flows.prune({ maxCount: 4, maxAgeMs: undefined })).toBe(3);
    expect(await left()).toEqual([...revs.slice(0, 4), revs[6]]);
    expect(await store.flows.find(revs[5] ?? "")).toBeUndefined();
    expect(await store.flows.find(revs[6] ?? "")).toBeDefined();
    expect(await store.flows.prune({ maxCount: 1, maxAgeMs: undefined })).toBe(2);
    expect(await left()).toEqual([...revs.slice(0, 2), revs[6]]);
    expect((await store.flows.commit(draft(revs[0] ?? ""))).seq).toBe(9);
  });

  test("prunes by age", async () => {
    await using location = await createLocation();
    await using store = await location.open();
    for (let count = 0; count < 3; count++) {
      await store.flows.commit(draft(store.flows.active().rev));
    }
    expect(await store.flows.prune({ maxCount: 100, maxAgeMs: 60_000 })).toBe(0);
    // Each revision is older than a negative age.
    expect(await store.flows.prune({ maxCount: 100, maxAgeMs: -60_000 })).toBe(2);
    expect((await store.flows.list({ limit: 10 })).revisions).toHaveLength(2);
  });

  test("a commit with a used idempotency key changes nothing and names the first revision", async () => {
    await using location = await createLocation();
    await using store = await location.open();
    const idempotencyKey = { key: "k", fingerprint: new Uint8Array([1, 2]) };
    const root = store.flows.active();
    const first = await store.flows.commit(draft(root.rev, { idempotencyKey }));
    const repeat = store.flows.commit(
      draft(root.rev, { idempotencyKey: { key: "k", fingerprint: new Uint8Array([3]) } }),
    );
    await expect(repeat).rejects.toMatchObject({
      name: "RepeatedRequest",
      fingerprint: idempotencyKey.fingerprint,
      rev: first.rev,
    });
    expect(store.flows.active()).toBe(first);
    expect(await store.flows.findRepeated("ada", "k")).toMatchObject({
      name: "RepeatedRequest",
      fingerprint: idempotencyKey.fingerprint,
      rev: first.rev,
    });
    expect(await store.flows.findRepeated("ada", "other")).toBeUndefined();
    expect(await store.flows.findRepeated("bob", "k")).toBeUndefined();
    expect(await store.flows.findRepeated(undefined, "k")).toBeUndefined();
    await using again = await location.open();
    await expect(again.flows.commit(draft(first.rev, { idempotencyKey }))).rejects.toBeInstanceOf(RepeatedRequest);
    const other = await store.flows.commit(draft(first.rev, { idempotencyKey, by: "bob" }));
    expect((await store.flows.commit(draft(other.rev, { idempotencyKey, by: undefined }))).parent).toBe(other.rev);
  });

  test("a rejected commit does not use its idempotency key", async () => {
    await using location = await createLocation();
    await using store = await location.open();
    const idempotencyKey = { key: "k", fingerprint: new Uint8Array([1]) };
    const late = store.flows.commit(draft("unknown", { idempotencyKey }));
    await expect(late).rejects.toMatchObject({ reason: "version_mismatch" });
    const root = store.flows.active();
    expect((await store.flows.commit(draft(root.rev, { idempotencyKey }))).parent).toBe(root.rev);
  });

  test("exactly one of concurrent commits with the same idempotency key succeeds", async () => {
    await using location = await createLocation();
    await using store = await location.open();
    const idempotencyKey = { key: "k", fingerprint: new Uint8Array([1]) };
    const { rev } = store.flows.active();
    const outcomes = await Promise.allSettled(
      Array.from({ length: 8 }, () => store.flows.commit(draft(rev, { idempotencyKey }))),
    );
    const losses = outcomes.flatMap((outcome) => (outcome.status === "rejected" ? [outcome.reason as unknown] : []));
    expect(losses).toHaveLength(7);
    for (const loss of losses) {
      expect(loss).toMatchObject({ name: "RepeatedRequest", rev: store.flows.active().rev });
    }
  });

  test("is usable until it is closed, and reports the change", async () => {
    await using location = await createLocation();
    const store = await location.open();
    const seen: boolean[] = [];
    store.onHealthChange(() => seen.push(store.health().isUsable));
    await store.flows.commit(draft("unknown")).catch(() => {});
    expect(store.health()).toEqual({ isUsable: true });
    await store[Symbol.asyncDispose]();
    expect(store.health()).toEqual({ isUsable: false, message: "the store is closed" });
    expect(seen).toEqual([false]);
  });

  test("reload reads the active revision from storage", async () => {
    await using location = await createLocation();
    await using store = await location.open();
    const revision = await store.flows.commit(draft(store.flows.active().rev));
    const reloaded = await store.flows.reload();
    expect(reloaded).toEqual(revision);
    expect(reloaded).not.toBe(revision);
  });

  test("keeps revisions across a restart", async () => {
    await using location = await createLocation();
    const first = await location.open();
    const revision = await first.flows.commit(draft(first.flows.active().rev));
    await first[Symbol.asyncDispose]();
    await using second = await location.open();
    expect(second.flows.active()).toEqual(revision);
  });

  test("disposing waits for a pending commit, and rejects later ones", async () => {
    await using location = await createLocation();
    const store = await location.open();
    const root = store.flows.active();
    const commit = store.flows.commit(draft(root.rev));
    await store[Symbol.asyncDispose]();
    const revision = await commit;
    await expect(store.flows.commit(draft(revision.rev))).rejects.toMatchObject({ reason: "unavailable" });
    await using reopened = await location.open();
    expect(reopened.flows.active()).toEqual(revision);
  });

  test.each(["an older revision", "an unknown one"])(
    "rejects a draft based on %s with the active revision in the message",
    async (parent) => {
      await using location = await createLocation();
      await using store = await location.open();
      const root = store.flows.active();
      const revision = await store.flows.commit(draft(root.rev));
      const late = store.flows.commit(draft(parent === "an unknown one" ? "unknown" : root.rev));
      expect(await late.then(undefined, describe)).toBe(
        `version_mismatch rev: the active revision is "${revision.rev}": read it, resolve the differences and deploy again`,
      );
      expect(store.flows.active()).toBe(revision);
    },
  );

  test("exactly one of 64 concurrent commits with the same parent succeeds", async () => {
    await using location = await createLocation();
    await using store = await location.open();
    const outcome = await race(
      store.flows.active(),
      Array.from({ length: 64 }, () => store),
    );
    expect(outcome).toEqual({
      winners: [store.flows.active()],
      losses: Array.from({ length: 63 }, () => "version_mismatch"),
    });
  });

  test("exactly one of the concurrent commits of several stores succeeds", async () => {
    await using location = await createLocation();
    await using first = await location.open();
    await using second = await location.open();
    await using third = await location.open();
    for (let round = 0; round < 10; round++) {
      const outcome = await race(first.flows.active(), [first, second, third]);
      expect(outcome).toEqual({ winners: [first.flows.active()], losses: ["version_mismatch", "version_mismatch"] });
    }
  });

  test("a commit that fails changes nothing", async () => {
    await using location = await createLocation();
    await using store = await location.open();
    const root = store.flows.active();
    await expect(store.flows.commit(draft(root.rev, { deploymentType: "bad" as "full" }))).rejects.toThrow(
      /deployment_type/,
    );
    expect(store.flows.active()).toBe(root);
    expect((await store.flows.commit(draft(root.rev))).seq).toBe(root.seq + 1);
  });

  test("stores nodes and credentials of any name", async () => {
    await using location = await createLocation();
    await using store = await location.open();
    const ids = ["__proto__", "constructor", "", "\u0000", "🔑"];
    const credentials = new Map(ids.map((id) => [id, new Map(ids.map((name) => [name, id]))]));
    const flows = documentOf(ids.map((id) => ({ id, type: id })));
    await store.flows.commit(draft(store.flows.active().rev, { flows, credentials }));
    expect(await store.flows.reload()).toMatchObject({ flows, credentials });
  });

  test("stores 10,000 nodes in their order", async () => {
    await using location = await createLocation();
    await using store = await location.open();
    const nodes = Array.from({ length: 10_000 }, (_, index) => ({
      id: `n${index}`,
      type: "t",
      wires: [[`n${index + 1}`]],
    }));
    const flows = documentOf(nodes);
    await store.flows.commit(draft(store.flows.active().rev, { flows }));
    expect((await store.flows.reload()).flows.nodes).toEqual(nodes);
  });
}

const failed = { state: "failed", message: "why", missingTypes: ["x"] } as const;

function collect(store: Store): RevisionEvent[] {
  const events: RevisionEvent[] = [];
  store.flows.onRevision((event) => events.push(event));
  return events;
}

async function race(parent: Revision, stores: Store[]): Promise<{ winners: Revision[]; losses: unknown[] }> {
  const outcomes = await Promise.allSettled(
    stores.map((store, index) => store.flows.commit(draft(parent.rev, { by: `user ${index}` }))),
  );
  return {
    winners: outcomes.filter((outcome) => outcome.status === "fulfilled").map(({ value }) => value),
    losses: outcomes
      .filter((outcome) => outcome.status === "rejected")
      .map(({ reason }: { reason: { reason?: unknown } }) => reason.reason ?? reason),
  };
}

const origin = { by: "ada", address: "10.0.0.1", protocol: "grpc", requestId: "r-1" };
const created: AuditRecord = { kind: "token_created", origin };
const removed: AuditRecord = { kind: "token_revoked", origin, subject: "a token" };

/** The contract of `TokenStore`. */
export function tokenStoreContract(createLocation: () => Promise<StoreLocation>): void {
  function token(init: Partial<StoredToken> = {}): StoredToken {
    return {
      id: randomBytes(12).toString("hex"),
      hash: new Uint8Array(randomBytes(32)),
      name: undefined,
      username: "ada",
      passwordFingerprint: new Uint8Array(randomBytes(32)),
      clientId: "service-admin",
      scope: "read flows.write",
      createdAtMs: 1_800_000_000_000,
      expiresAtMs: 1_900_000_000_000,
      ...init,
    };
  }

  test("finds an inserted token, also after a restart", async () => {
    await using location = await createLocation();
    const [one, two] = [token({ name: "backup job" }), token({ username: "constructor", createdAtMs: undefined })];
    const first = await location.open();
    await first.tokens.insert(one, created);
    await first.tokens.insert(two, created);
    expect(await first.tokens.find(one.hash)).toEqual(one);
    await first[Symbol.asyncDispose]();
    await using second = await location.open();
    expect(await second.tokens.find(two.hash)).toEqual(two);
  });

  test("replaces what a session keeps, unless another process has done so", async () => {
    await using location = await createLocation();
    await using store = await location.open();
    const [first, second, third] = ["1", "2", "3"];
    const [session, other] = [token({ session: first }), token()];
    await store.tokens.insert(session, created);
    await store.tokens.insert(other, created);
    const { hash } = session;
    const update = (from = "", to = "", of = hash) => store.tokens.updateSession({ hash: of, from, to });
    expect(await Promise.all([update(first, second), update(first, third)])).toEqual(
      expect.arrayContaining([true, false]),
    );
    const { session: kept } = (await store.tokens.find(hash)) ?? {};
    expect([second, third]).toContain(kept);
    expect(await update(first, third)).toBe(false);
    expect(await update(undefined, first, other.hash)).toBe(false);
    expect((await store.tokens.find(other.hash))?.session).toBeUndefined();
  });

  test("finds nothing for another hash", async () => {
    await using location = await createLocation();
    await using store = await location.open();
    await store.tokens.insert(token(), created);
    expect(await store.tokens.find(token().hash)).toBeUndefined();
  });

  test("removes a token for all stores, and ignores an unknown one", async () => {
    await using location = await createLocation();
    await using store = await location.open();
    await using another = await location.open();
    const [one, two] = [token(), token()];
    await store.tokens.insert(one, created);
    await store.tokens.insert(two, created);
    await store.tokens.remove({ hash: one.hash }, removed);
    await store.tokens.remove({ hash: one.hash }, removed);
    expect(await another.tokens.find(one.hash)).toBeUndefined();
    expect(await another.tokens.find(two.hash)).toEqual(two);
  });

  test("refuses named tokens beyond the limits, also of concurrent insertions, but not tokens of logins", async () => {
    await using location = await createLocation();
    await using store = await location.open();
    await using another = await location.open();
    const limits = { perUser: 2, total: 3, nowMs: 1000 };
    const insert = (init: Partial<StoredToken>, into = store) => into.tokens.insert(token(init), created, limits);
    await store.tokens.insert(token(), created);
    await insert({ name: "expired", expiresAtMs: 1000 });
    const ada = ["a", "b", "c", "d"].map((name, index) => insert({ name }, index % 2 === 0 ? store : another));
    const outcomes = await Promise.allSettled(ada);
    expect(outcomes.filter(({ status }) => status === "fulfilled")).toHaveLength(2);
    expect(outcomes.find(({ status }) => status === "rejected")).toMatchObject({
      reason: {
        reason: "limit_exceeded",
        message: "token limit reached (2, adminAuth.maxTokensPerUser): revoke one first",
      },
    });
    await insert({ name: "a", username: "bob" });
    await expect(insert({ name: "b", username: "bob" })).rejects.toThrow(
      "token limit of all users reached (3, adminAuth.maxTokens): revoke one first",
    );
    expect((await store.tokens.list({ limit: 10, nowMs: 1000 })).tokens).toHaveLength(4);
    expect((await store.audit.list({ limit: 10, order: "newest" })).entries).toHaveLength(5);
    expect(store.health().isUsable).toBe(true);
  });

  test("removes expired tokens", async () => {
    await using location = await createLocation();
    await using store = await location.open();
    const [past, now, later] = [token({ expiresAtMs: 99 }), token({ expiresAtMs: 100 }), token({ expiresAtMs: 101 })];
    for (const each of [past, now, later]) {
      await store.tokens.insert(each, created);
    }
    await store.tokens.removeExpired(100);
    expect(await store.tokens.find(past.hash)).toBeUndefined();
    expect(await store.tokens.find(now.hash)).toBeUndefined();
    expect(await store.tokens.find(later.hash)).toEqual(later);
  });

  test("reports each removed token before the removal resolves", async () => {
    await using location = await createLocation();
    await using store = await location.open();
    const revoked: unknown[] = [];
    const subscription = store.tokens.onRevoked((hash) => revoked.push(hash));
    const [one, two] = [token(), token()];
    await store.tokens.insert(one, created);
    await store.tokens.insert(two, created);
    expect(revoked).toEqual([]);
    await store.tokens.remove({ hash: one.hash }, removed).then(() => revoked.push("removed"));
    expect(revoked).toEqual([one.hash, "removed"]);
    subscription[Symbol.dispose]();
    await store.tokens.remove({ hash: two.hash }, removed);
    expect(revoked).toHaveLength(2);
  });

  test("rejects a second token with the same hash", async () => {
    await using location = await createLocation();
    await using store = await location.open();
    const one = token();
    await store.tokens.insert(one, created);
    await expect(store.tokens.insert({ ...one, username: "eve" }, created)).rejects.toThrow(/unique/i);
    expect(await store.tokens.find(one.hash)).toEqual(one);
  });

  test("lists tokens that have not expired, newest first, in pages, of all users or one", async () => {
    await using location = await createLocation();
    await using store = await location.open();
    const [one, two, three] = [token(), token({ username: "bob", name: "backup" }), token()];
    for (const each of [token({ expiresAtMs: 100 }), one, two, three]) {
      await store.tokens.insert(each, created);
    }
    const first = await store.tokens.list({ limit: 2, nowMs: 100 });
    expect(first.tokens).toEqual([three, two].map((each) => ({ ...each, lastUsedAtMs: undefined })));
    await store.tokens.insert(token(), created);
    const second = await store.tokens.list({ limit: 2, nowMs: 100, before: first.next });
    expect(second).toEqual({ tokens: [{ ...one, lastUsedAtMs: undefined }], next: undefined });
    const ofBob = await store.tokens.list({ limit: 1, nowMs: 100, username: "bob" });
    expect(ofBob).toMatchObject({ tokens: [{ id: two.id }], next: undefined });
  });

  test("removes one token by its id, those of a user, or all, and reports each", async () => {
    await using location = await createLocation();
    await using store = await location.open();
    const revoked: unknown[] = [];
    store.tokens.onRevoked((hash) => revoked.push(hash));
    const [one, two, three, four] = [token(), token(), token({ username: "bob" }), token({ username: "eve" })];
    for (const each of [one, two, three, four]) {
      await store.tokens.insert(each, created);
    }
    expect(await store.tokens.remove({ id: one.id }, removed)).toBe(1);
    expect(await store.tokens.remove({ id: one.id }, removed)).toBe(0);
    expect(await store.tokens.remove({ username: "ada" }, removed)).toBe(1);
    expect(revoked).toEqual([one.hash, two.hash]);
    expect(await store.tokens.find(three.hash)).toEqual(three);
    expect(await store.tokens.remove("all", removed)).toBe(2);
    expect(revoked.slice(2)).toEqual(expect.arrayContaining([three.hash, four.hash]));
    expect((await store.tokens.list({ limit: 10, nowMs: 0 })).tokens).toEqual([]);
  });

  test("records the last use of tokens, and ignores unknown ones", async () => {
    await using location = await createLocation();
    await using store = await location.open();
    const [one, two] = [token(), token()];
    await store.tokens.insert(one, created);
    await store.tokens.insert(two, created);
    const uses = new Map([
      [one.id, 1000],
      ["unknown", 2000],
    ]);
    await store.tokens.recordUses(uses);
    const { tokens } = await store.tokens.list({ limit: 10, nowMs: 0 });
    expect(tokens.map(({ id, lastUsedAtMs }) => [id, lastUsedAtMs])).toEqual([
      [two.id, undefined],
      [one.id, 1000],
    ]);
  });

  test("writes the audit entry of an insertion and of a removal, and none if nothing changes", async () => {
    await using location = await createLocation();
    await using store = await location.open();
    const one = token();
    await store.tokens.insert(one, created);
    await store.tokens.insert(one, created).catch(() => {});
    await store.tokens.insert(token(), created);
    await store.tokens.remove({ hash: token().hash }, removed);
    await store.tokens.remove("all", removed);
    await store.tokens.removeExpired(Number.MAX_SAFE_INTEGER);
    const { entries } = await store.audit.list({ limit: 10, order: "oldest" });
    expect(entries.map(({ kind, count }) => [kind, count])).toEqual([
      ["token_created", 1],
      ["token_created", 1],
      ["token_revoked", 2],
    ]);
    expect(entries.at(-1)).toMatchObject({ origin, subject: "a token" });
  });
}
