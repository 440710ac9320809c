import { randomBytes } from "node:crypto";
import { expect, test } from "vitest";
import type { Revision, RevisionNotice, Store, StoredToken } from "../../src/store/store.ts";
import { describe, documentOf } from "../flows/builders.ts";
import { draft } from "./builders.ts";

/** Where a store keeps its things: each `open` is one more store on the same, as another process would have it. */
export interface Place extends AsyncDisposable {
  open(): Promise<Store>;
}

/** What every FlowStore promises; each adapter's test file runs it on the real database. */
export function flowStoreContract(createPlace: () => Promise<Place>): void {
  test("a new store has one revision, without flows", async () => {
    await using place = await createPlace();
    await using store = await place.open();
    await using another = await place.open();
    const root = store.flows.active();
    expect(root.flows.nodes).toEqual([]);
    expect(root.parent).toBeUndefined();
    expect(root.credentials).toEqual(new Map());
    expect(root.rev).not.toBe("");
    expect(another.flows.active()).toEqual(root);
  });

  test("a commit that its caller no longer waits for changes nothing; one that does not begin too late does", async () => {
    await using place = await createPlace();
    await using store = await place.open();
    const root = store.flows.active();
    const reason = new Error("too late");
    await expect(store.flows.commit(draft(root.rev), AbortSignal.abort(reason))).rejects.toBe(reason);
    const leaving = new AbortController();
    const committing = store.flows.commit(draft(root.rev), leaving.signal);
    leaving.abort(reason);
    await expect(committing).rejects.toBe(reason);
    expect(store.flows.active()).toBe(root);
    await store.flows.commit(draft(root.rev), new AbortController().signal);
    expect(store.flows.active().seq).toBe(root.seq + 1);
  });

  test("two stores opened at once make one root", async () => {
    await using place = await createPlace();
    const stores = await Promise.all(Array.from({ length: 8 }, () => place.open()));
    const roots = stores.map((store) => store.flows.active());
    await Promise.all(stores.map((store) => store[Symbol.asyncDispose]()));
    expect(new Set(roots.map(({ rev }) => rev)).size).toBe(1);
  });

  test("a commit becomes the active revision, as it was given", async () => {
    await using place = await createPlace();
    await using store = await place.open();
    const root = store.flows.active();
    const given = draft(root.rev, { by: undefined, deploymentType: "nodes" });
    const revision = await store.flows.commit(given);
    expect(revision).toMatchObject(given);
    expect(Object.isFrozen(revision) && Object.isFrozen(revision.flows)).toBe(true);
    expect(revision.seq).toBe(root.seq + 1);
    expect(Math.abs(Date.now() - revision.committedAtMs)).toBeLessThan(60_000);
    expect(store.flows.active()).toBe(revision);
  });

  test("the same content deployed again is another revision", async () => {
    await using place = await createPlace();
    await using store = await place.open();
    const root = store.flows.active();
    const first = await store.flows.commit(draft(root.rev));
    const second = await store.flows.commit(draft(first.rev));
    expect(new Set([root.rev, first.rev, second.rev]).size).toBe(3);
  });

  test("active gives the same object until there is a newer one", async () => {
    await using place = await createPlace();
    await using store = await place.open();
    await store.flows.commit(draft(store.flows.active().rev));
    const before = store.flows.active();
    await store.flows.reload();
    expect(store.flows.active()).toBe(before);
    await store.flows.commit(draft(before.rev));
    expect(store.flows.active()).not.toBe(before);
  });

  test("has what another store committed once it reads storage, or loses to it, and gives notice of it", async () => {
    await using place = await createPlace();
    await using here = await place.open();
    await using there = await place.open();
    const notices = collect(here);
    const first = await there.flows.commit(draft(here.flows.active().rev));
    await here.flows.reload();
    const [one] = notices;
    expect(one).toEqual({ revision: first, isOwn: false });
    expect(here.flows.active()).toBe(one?.revision);

    const second = await there.flows.commit(draft(first.rev));
    await expect(here.flows.commit(draft(first.rev))).rejects.toMatchObject({ reason: "version_mismatch" });
    expect(notices.slice(1)).toEqual([{ revision: second, isOwn: false }]);
    expect(here.flows.active()).toBe(notices[1]?.revision);
  });

  test("gives notice of its own commits, when active gives them and before they resolve", async () => {
    await using place = await createPlace();
    await using store = await place.open();
    const notices: (RevisionNotice & { wasActive: boolean; hadResolved: boolean })[] = [];
    let hadResolved = false;
    const subscription = store.flows.onRevision(({ revision, isOwn }) =>
      notices.push({ revision, isOwn, wasActive: store.flows.active() === revision, hadResolved }),
    );
    const root = store.flows.active();
    const revision = await store.flows.commit(draft(root.rev));
    hadResolved = true;
    expect(notices).toEqual([{ revision, isOwn: true, wasActive: true, hadResolved: false }]);
    expect(notices[0]?.revision).toBe(revision);

    await store.flows.commit(draft(root.rev)).catch(() => {});
    await store.flows.reload();
    expect(notices).toHaveLength(1);
    subscription[Symbol.dispose]();
    await store.flows.commit(draft(revision.rev));
    expect(notices).toHaveLength(1);
  });

  test("finds every revision by its rev, with flows and credentials", async () => {
    await using place = await createPlace();
    await using store = await place.open();
    const root = store.flows.active();
    const one = await store.flows.commit(draft(root.rev, { flows: documentOf([]), by: undefined }));
    const two = await store.flows.commit(draft(one.rev, { credentials: new Map() }));
    expect(await store.flows.find(root.rev)).toEqual(root);
    expect(await store.flows.find(one.rev)).toEqual(one);
    expect(await store.flows.find(two.rev)).toBe(store.flows.active());
    expect(await store.flows.find("unknown")).toBeUndefined();
  });

  test("lists revisions newest first, in pages that commits between them do not shift", async () => {
    await using place = await createPlace();
    await using store = await place.open();
    const all = [store.flows.active()];
    for (let count = 0; count < 4; count++) {
      all.unshift(await store.flows.commit(draft(store.flows.active().rev, { by: `author ${count}` })));
    }
    const infos = all.map(({ rev, parent, seq, committedAtMs, by, deploymentType }) => ({
      rev,
      parent,
      seq,
      committedAtMs,
      by,
      deploymentType,
    }));
    expect(await store.flows.list({ limit: 5 })).toEqual({ revisions: infos, next: undefined });
    const first = await store.flows.list({ limit: 2 });
    expect(first.revisions).toEqual(infos.slice(0, 2));
    await store.flows.commit(draft(store.flows.active().rev));
    const second = await store.flows.list({ limit: 2, before: first.next });
    expect(second.revisions).toEqual(infos.slice(2, 4));
    expect(await store.flows.list({ limit: 2, before: second.next })).toEqual({
      revisions: infos.slice(4),
      next: undefined,
    });
  });

  test("is usable until it is closed, and says when that changes", async () => {
    await using place = await createPlace();
    const store = await place.open();
    const seen: boolean[] = [];
    store.onHealthChange(() => seen.push(store.health().isUsable));
    await store.flows.commit(draft("unknown")).catch(() => {});
    expect(store.health()).toEqual({ isUsable: true });
    await store[Symbol.asyncDispose]();
    expect(store.health()).toEqual({ isUsable: false, message: "the store is closed" });
    expect(seen).toEqual([false]);
  });

  test("reload reads the active revision anew", async () => {
    await using place = await createPlace();
    await using store = await place.open();
    const revision = await store.flows.commit(draft(store.flows.active().rev));
    const reloaded = await store.flows.reload();
    expect(reloaded).toEqual(revision);
    expect(reloaded).not.toBe(revision);
  });

  test("keeps everything across a restart", async () => {
    await using place = await createPlace();
    const first = await place.open();
    const revision = await first.flows.commit(draft(first.flows.active().rev));
    await first[Symbol.asyncDispose]();
    await using second = await place.open();
    expect(second.flows.active()).toEqual(revision);
  });

  test("disposing waits for a commit under way, and refuses the next", async () => {
    await using place = await createPlace();
    const store = await place.open();
    const root = store.flows.active();
    const commit = store.flows.commit(draft(root.rev));
    await store[Symbol.asyncDispose]();
    const revision = await commit;
    await expect(store.flows.commit(draft(revision.rev))).rejects.toMatchObject({ reason: "unavailable" });
    await using reopened = await place.open();
    expect(reopened.flows.active()).toEqual(revision);
  });

  test.each(["an older revision", "an unknown one"])("refuses a draft on %s, naming the active one", async (parent) => {
    await using place = await createPlace();
    await using store = await place.open();
    const root = store.flows.active();
    const revision = await store.flows.commit(draft(root.rev));
    const late = store.flows.commit(draft(parent === "an unknown one" ? "unknown" : root.rev));
    expect(await late.then(undefined, describe)).toBe(
      `version_mismatch rev: the active revision is "${revision.rev}": read it, resolve the differences and deploy again`,
    );
    expect(store.flows.active()).toBe(revision);
  });

  test("exactly one of 64 racers on one parent wins", async () => {
    await using place = await createPlace();
    await using store = await place.open();
    const outcome = await race(
      store.flows.active(),
      Array.from({ length: 64 }, () => store),
    );
    expect(outcome).toEqual({
      winners: [store.flows.active()],
      losses: Array.from({ length: 63 }, () => "version_mismatch"),
    });
  });

  test("exactly one of the racers from several stores wins", async () => {
    await using place = await createPlace();
    await using first = await place.open();
    await using second = await place.open();
    await using third = await place.open();
    for (let round = 0; round < 10; round++) {
      const outcome = await race(first.flows.active(), [first, second, third]);
      expect(outcome).toEqual({
        winners: [first.flows.active()],
        losses: ["version_mismatch", "version_mismatch"],
      });
    }
  });

  test("a commit that can't be stored changes nothing", async () => {
    await using place = await createPlace();
    await using store = await place.open();
    const root = store.flows.active();
    await expect(store.flows.commit(draft(root.rev, { deploymentType: "bad" as "full" }))).rejects.toThrow(
      /deployment_type/,
    );
    expect(store.flows.active()).toBe(root);
    expect((await store.flows.commit(draft(root.rev))).seq).toBe(root.seq + 1);
  });

  test("keeps nodes and credentials of any name", async () => {
    await using place = await createPlace();
    await using store = await place.open();
    const ids = ["__proto__", "constructor", "", "\u0000", "🔑"];
    const credentials = new Map(ids.map((id) => [id, new Map(ids.map((name) => [name, id]))]));
    const flows = documentOf(ids.map((id) => ({ id, type: id })));
    await store.flows.commit(draft(store.flows.active().rev, { flows, credentials }));
    expect(await store.flows.reload()).toMatchObject({ flows, credentials });
  });

  test("keeps 10,000 nodes in their order", async () => {
    await using place = await createPlace();
    await using store = await place.open();
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

function collect(store: Store): RevisionNotice[] {
  const notices: RevisionNotice[] = [];
  store.flows.onRevision((notice) => notices.push(notice));
  return notices;
}

async function race(parent: Revision, racers: Store[]): Promise<{ winners: Revision[]; losses: unknown[] }> {
  const outcomes = await Promise.allSettled(
    racers.map((store, index) => store.flows.commit(draft(parent.rev, { by: `racer ${index}` }))),
  );
  return {
    winners: outcomes.filter((outcome) => outcome.status === "fulfilled").map(({ value }) => value),
    losses: outcomes
      .filter((outcome) => outcome.status === "rejected")
      .map(({ reason }: { reason: { reason?: unknown } }) => reason.reason ?? reason),
  };
}

/** What every TokenStore promises. */
export function tokenStoreContract(createPlace: () => Promise<Place>): void {
  function token(init: Partial<StoredToken> = {}): StoredToken {
    return {
      hash: new Uint8Array(randomBytes(32)),
      username: "ada",
      passwordFingerprint: new Uint8Array(randomBytes(32)),
      clientId: "service-admin",
      scope: "read flows.write",
      expiresAtMs: 1_900_000_000_000,
      ...init,
    };
  }

  test("finds the token that was inserted, across a restart too", async () => {
    await using place = await createPlace();
    const [one, two] = [token(), token({ username: "constructor" })];
    const first = await place.open();
    await first.tokens.insert(one);
    await first.tokens.insert(two);
    expect(await first.tokens.find(one.hash)).toEqual(one);
    await first[Symbol.asyncDispose]();
    await using second = await place.open();
    expect(await second.tokens.find(two.hash)).toEqual(two);
  });

  test("finds nothing for another hash", async () => {
    await using place = await createPlace();
    await using store = await place.open();
    await store.tokens.insert(token());
    expect(await store.tokens.find(token().hash)).toBeUndefined();
  });

  test("removes one token, for every store, and is content where there is none", async () => {
    await using place = await createPlace();
    await using store = await place.open();
    await using another = await place.open();
    const [one, two] = [token(), token()];
    await store.tokens.insert(one);
    await store.tokens.insert(two);
    await store.tokens.remove(one.hash);
    await store.tokens.remove(one.hash);
    expect(await another.tokens.find(one.hash)).toBeUndefined();
    expect(await another.tokens.find(two.hash)).toEqual(two);
  });

  test("removes the tokens whose time is over", async () => {
    await using place = await createPlace();
    await using store = await place.open();
    const [past, now, later] = [token({ expiresAtMs: 99 }), token({ expiresAtMs: 100 }), token({ expiresAtMs: 101 })];
    for (const each of [past, now, later]) {
      await store.tokens.insert(each);
    }
    await store.tokens.removeExpired(100);
    expect(await store.tokens.find(past.hash)).toBeUndefined();
    expect(await store.tokens.find(now.hash)).toBeUndefined();
    expect(await store.tokens.find(later.hash)).toEqual(later);
  });

  test("gives notice of each token that is removed, before that resolves", async () => {
    await using place = await createPlace();
    await using store = await place.open();
    const revoked: unknown[] = [];
    const subscription = store.tokens.onRevoked((hash) => revoked.push(hash));
    const [one, two] = [token(), token()];
    await store.tokens.insert(one);
    await store.tokens.insert(two);
    expect(revoked).toEqual([]);
    await store.tokens.remove(one.hash).then(() => revoked.push("removed"));
    expect(revoked).toEqual([one.hash, "removed"]);
    subscription[Symbol.dispose]();
    await store.tokens.remove(two.hash);
    expect(revoked).toHaveLength(2);
  });

  test("refuses a second token of one hash", async () => {
    await using place = await createPlace();
    await using store = await place.open();
    const one = token();
    await store.tokens.insert(one);
    await expect(store.tokens.insert({ ...one, username: "eve" })).rejects.toThrow(/unique/i);
    expect(await store.tokens.find(one.hash)).toEqual(one);
  });
}
