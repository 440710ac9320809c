import { randomBytes } from "node:crypto";
import { expect, test } from "vitest";
import type { FlowNode } from "../../src/flows/configuration.ts";
import type { FlowStore, Revision, StoredToken, TokenStore } from "../../src/store/store.ts";
import { describe } from "../flows/builders.ts";
import { draft } from "./builders.ts";

/** Where a store keeps its things: each `open` is one more store on the same, as another process would have it. */
export interface Place<Store> extends AsyncDisposable {
  open(): Promise<Store>;
}

/** What every FlowStore promises; each adapter's test file runs it on the real database. */
export function flowStoreContract(createPlace: () => Promise<Place<FlowStore>>): void {
  test("a new store has one revision, without flows", async () => {
    await using place = await createPlace();
    await using store = await place.open();
    await using another = await place.open();
    const root = await store.active();
    expect(root.flows).toEqual([]);
    expect(root.credentials).toEqual(new Map());
    expect(root.rev).not.toBe("");
    expect(await another.active()).toEqual(root);
  });

  test("a commit that its caller no longer waits for changes nothing; one that does not begin too late does", async () => {
    await using place = await createPlace();
    await using store = await place.open();
    const root = await store.active();
    const reason = new Error("too late");
    await expect(store.commit(draft(root.rev), AbortSignal.abort(reason))).rejects.toBe(reason);
    const leaving = new AbortController();
    const committing = store.commit(draft(root.rev), leaving.signal);
    leaving.abort(reason);
    await expect(committing).rejects.toBe(reason);
    expect(await store.active()).toBe(root);
    await store.commit(draft(root.rev), new AbortController().signal);
    expect((await store.active()).seq).toBe(root.seq + 1);
  });

  test("two stores opened at once make one root", async () => {
    await using place = await createPlace();
    const stores = await Promise.all(Array.from({ length: 8 }, () => place.open()));
    const roots = await Promise.all(stores.map((store) => store.active()));
    await Promise.all(stores.map((store) => store[Symbol.asyncDispose]()));
    expect(new Set(roots.map(({ rev }) => rev)).size).toBe(1);
  });

  test("a commit becomes the active revision, as it was given", async () => {
    await using place = await createPlace();
    await using store = await place.open();
    const root = await store.active();
    const given = draft(root.rev, { by: undefined, deploymentType: "nodes" });
    const revision = await store.commit(given);
    const { parent: _, ...content } = given;
    expect(revision).toMatchObject(content);
    expect(revision.seq).toBe(root.seq + 1);
    expect(Math.abs(Date.now() - revision.committedAtMs)).toBeLessThan(60_000);
    expect(await store.active()).toBe(revision);
  });

  test("the same content deployed again is another revision", async () => {
    await using place = await createPlace();
    await using store = await place.open();
    const root = await store.active();
    const first = await store.commit(draft(root.rev));
    const second = await store.commit(draft(first.rev));
    expect(new Set([root.rev, first.rev, second.rev]).size).toBe(3);
  });

  test("active gives the same object until there is a newer one", async () => {
    await using place = await createPlace();
    await using store = await place.open();
    await store.commit(draft((await store.active()).rev));
    const before = await store.active();
    await store.reload();
    expect(await store.active()).toBe(before);
    await store.commit(draft(before.rev));
    expect(await store.active()).not.toBe(before);
  });

  test("sees what another store commits, as one object for all who ask", async () => {
    await using place = await createPlace();
    await using here = await place.open();
    await using there = await place.open();
    const revision = await there.commit(draft((await here.active()).rev));
    const [one, two] = await Promise.all([here.active(), here.active()]);
    expect(one).toEqual(revision);
    expect(two).toBe(one);
    expect(await here.active()).toBe(one);
  });

  test("reload reads the active revision anew", async () => {
    await using place = await createPlace();
    await using store = await place.open();
    const revision = await store.commit(draft((await store.active()).rev));
    const reloaded = await store.reload();
    expect(reloaded).toEqual(revision);
    expect(reloaded).not.toBe(revision);
  });

  test("keeps everything across a restart", async () => {
    await using place = await createPlace();
    const first = await place.open();
    const revision = await first.commit(draft((await first.active()).rev));
    await first[Symbol.asyncDispose]();
    await using second = await place.open();
    expect(await second.active()).toEqual(revision);
  });

  test("disposing waits for a commit under way, and refuses the next", async () => {
    await using place = await createPlace();
    const store = await place.open();
    const root = await store.active();
    const commit = store.commit(draft(root.rev));
    await store[Symbol.asyncDispose]();
    const revision = await commit;
    await expect(store.commit(draft(revision.rev))).rejects.toMatchObject({ reason: "unavailable" });
    await using reopened = await place.open();
    expect(await reopened.active()).toEqual(revision);
  });

  test.each(["an older revision", "an unknown one"])("refuses a draft on %s, naming the active one", async (parent) => {
    await using place = await createPlace();
    await using store = await place.open();
    const root = await store.active();
    const revision = await store.commit(draft(root.rev));
    const late = store.commit(draft(parent === "an unknown one" ? "unknown" : root.rev));
    expect(await late.then(undefined, describe)).toBe(
      `version_mismatch rev: the active revision is "${revision.rev}": read it, resolve the differences and deploy again`,
    );
    expect(await store.active()).toBe(revision);
  });

  test("exactly one of 64 racers on one parent wins", async () => {
    await using place = await createPlace();
    await using store = await place.open();
    const outcome = await race(
      await store.active(),
      Array.from({ length: 64 }, () => store),
    );
    expect(outcome).toEqual({
      winners: [await store.active()],
      losses: Array.from({ length: 63 }, () => "version_mismatch"),
    });
  });

  test("exactly one of the racers from several stores wins", async () => {
    await using place = await createPlace();
    await using first = await place.open();
    await using second = await place.open();
    await using third = await place.open();
    for (let round = 0; round < 10; round++) {
      const outcome = await race(await first.active(), [first, second, third]);
      expect(outcome).toEqual({
        winners: [await first.active()],
        losses: ["version_mismatch", "version_mismatch"],
      });
    }
  });

  test("a commit that can't be stored changes nothing", async () => {
    await using place = await createPlace();
    await using store = await place.open();
    const root = await store.active();
    const circular: { id: string; type: string; self?: unknown } = { id: "a", type: "t" };
    circular.self = circular;
    await expect(store.commit(draft(root.rev, { flows: [circular as unknown as FlowNode] }))).rejects.toThrow(
      TypeError,
    );
    await expect(store.commit(draft(root.rev, { deploymentType: "bad" as "full" }))).rejects.toThrow(/deployment_type/);
    expect(await store.active()).toBe(root);
    expect((await store.commit(draft(root.rev))).seq).toBe(root.seq + 1);
  });

  test("keeps nodes and credentials of any name", async () => {
    await using place = await createPlace();
    await using store = await place.open();
    const ids = ["__proto__", "constructor", "", "\u0000", "🔑"];
    const credentials = new Map(ids.map((id) => [id, new Map(ids.map((name) => [name, id]))]));
    const flows = ids.map((id) => ({ id, type: id }));
    await store.commit(draft((await store.active()).rev, { flows, credentials }));
    expect(await store.reload()).toMatchObject({ flows, credentials });
  });

  test("keeps 10,000 nodes in their order", async () => {
    await using place = await createPlace();
    await using store = await place.open();
    const flows = Array.from({ length: 10_000 }, (_, index) => ({
      id: `n${index}`,
      type: "t",
      wires: [[`n${index + 1}`]],
    }));
    await store.commit(draft((await store.active()).rev, { flows }));
    expect((await store.reload()).flows).toEqual(flows);
  });
}

async function race(parent: Revision, racers: FlowStore[]): Promise<{ winners: Revision[]; losses: unknown[] }> {
  const outcomes = await Promise.allSettled(
    racers.map((store, index) => store.commit(draft(parent.rev, { by: `racer ${index}` }))),
  );
  return {
    winners: outcomes.filter((outcome) => outcome.status === "fulfilled").map(({ value }) => value),
    losses: outcomes
      .filter((outcome) => outcome.status === "rejected")
      .map(({ reason }: { reason: { reason?: unknown } }) => reason.reason ?? reason),
  };
}

/** What every TokenStore promises. */
export function tokenStoreContract(createPlace: () => Promise<Place<TokenStore & AsyncDisposable>>): void {
  function token(init: Partial<StoredToken> = {}): StoredToken {
    return {
      hash: new Uint8Array(randomBytes(32)),
      username: "ada",
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
    await first.insert(one);
    await first.insert(two);
    expect(await first.find(one.hash)).toEqual(one);
    await first[Symbol.asyncDispose]();
    await using second = await place.open();
    expect(await second.find(two.hash)).toEqual(two);
  });

  test("finds nothing for another hash", async () => {
    await using place = await createPlace();
    await using store = await place.open();
    await store.insert(token());
    expect(await store.find(token().hash)).toBeUndefined();
  });

  test("removes one token, for every store, and is content where there is none", async () => {
    await using place = await createPlace();
    await using store = await place.open();
    await using another = await place.open();
    const [one, two] = [token(), token()];
    await store.insert(one);
    await store.insert(two);
    await store.remove(one.hash);
    await store.remove(one.hash);
    expect(await another.find(one.hash)).toBeUndefined();
    expect(await another.find(two.hash)).toEqual(two);
  });

  test("removes the tokens whose time is over", async () => {
    await using place = await createPlace();
    await using store = await place.open();
    const [past, now, later] = [token({ expiresAtMs: 99 }), token({ expiresAtMs: 100 }), token({ expiresAtMs: 101 })];
    for (const each of [past, now, later]) {
      await store.insert(each);
    }
    await store.removeExpired(100);
    expect(await store.find(past.hash)).toBeUndefined();
    expect(await store.find(now.hash)).toBeUndefined();
    expect(await store.find(later.hash)).toEqual(later);
  });

  test("refuses a second token of one hash", async () => {
    await using place = await createPlace();
    await using store = await place.open();
    const one = token();
    await store.insert(one);
    await expect(store.insert({ ...one, username: "eve" })).rejects.toThrow(/unique/i);
    expect(await store.find(one.hash)).toEqual(one);
  });
}
