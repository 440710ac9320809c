import { expect, test } from "vitest";
import type { RevisionModule } from "../../src/store/module-store.ts";
import { draft } from "./builders.ts";
import type { StoreLocation } from "./contract.ts";

const integrity = `sha512-${"a".repeat(86)}==`;
const one: RevisionModule = { name: "contrib-one", version: "1.0.0", integrity, types: ["one", "Ärt 🔑"] };
const two: RevisionModule = { name: "@scope/two", version: "2.0.0-rc.1", integrity: undefined, types: [] };

/** The contract of `ModuleStore`. */
export function moduleStoreContract(createLocation: () => Promise<StoreLocation>): void {
  test("a commit records the modules of its revision, which are sorted by name", async () => {
    await using location = await createLocation();
    const revs: string[] = [];
    {
      await using store = await location.open();
      for (const modules of [[one, two], [], undefined]) {
        revs.push((await store.flows.commit(draft(store.flows.active().rev, { modules }))).rev);
      }
      expect(await store.modules.find(revs[0] ?? "")).toEqual([two, one]);
    }
    await using store = await location.open();
    const found = await Promise.all([...revs, "absent"].map((rev) => store.modules.find(rev)));
    expect(found).toEqual([[two, one], [], undefined, undefined]);
  });

  test("modules of a revision can be replaced, which changes no other revision and not the audit log", async () => {
    await using location = await createLocation();
    await using store = await location.open();
    const first = await store.flows.commit(draft(store.flows.active().rev, { modules: [one] }));
    const second = await store.flows.commit(draft(first.rev, { modules: [one] }));
    const newer = { ...one, version: "1.1.0" };
    expect(await store.modules.record(second.rev, [newer], [one])).toBe(true);
    expect(await store.modules.record("absent", [two], undefined)).toBe(true);
    expect(await store.modules.find(first.rev)).toEqual([one]);
    expect(await store.modules.find(second.rev)).toEqual([newer]);
    expect(await store.audit.verify()).toMatchObject({ problem: undefined });
    expect((await store.audit.list({ limit: 10, order: "oldest" })).entries).toHaveLength(2);
  });

  test("of replicas that replace the modules of a revision at the same time, one succeeds", async () => {
    await using location = await createLocation();
    await using store = await location.open();
    const { rev } = await store.flows.commit(draft(store.flows.active().rev));
    const sets = [[one], [two]];
    const outcomes = await Promise.all(sets.map((modules) => store.modules.record(rev, modules, undefined)));
    const recorded = sets.filter((_, index) => outcomes[index]);
    expect(recorded).toHaveLength(1);
    expect(await store.modules.find(rev)).toEqual(recorded[0]);
    expect(await store.modules.record(rev, [], [{ ...one, version: "1.1.0" }])).toBe(false);
    expect(await store.modules.find(rev)).toEqual(recorded[0]);
  });

  test("a tarball is found by its hash, whoever puts it again", async () => {
    await using location = await createLocation();
    {
      await using store = await location.open();
      const content = new Uint8Array([0, 1, 255]);
      await Promise.all([1, 2].map(() => store.modules.putTarball({ integrity, content })));
    }
    await using store = await location.open();
    expect(await store.modules.listTarballs([integrity, "sha512-absent"])).toEqual([integrity]);
    expect(await store.modules.listTarballs([])).toEqual([]);
    expect(new Uint8Array((await store.modules.findTarball(integrity)) ?? [])).toEqual(new Uint8Array([0, 1, 255]));
    expect(await store.modules.findTarball("sha512-absent")).toBeUndefined();
  });

  test("a new tarball and the modules of revisions that are kept remain when others are removed", async () => {
    await using location = await createLocation();
    await using store = await location.open();
    await store.modules.putTarball({ integrity, content: new Uint8Array([1]) });
    const revs: string[] = [];
    for (const version of ["1.0.0", "2.0.0", "3.0.0", "4.0.0"]) {
      const modules = [{ ...one, version }];
      revs.push((await store.flows.commit(draft(store.flows.active().rev, { modules }))).rev);
    }
    expect(await store.flows.prune({ maxCount: 2, maxAgeMs: undefined })).toBe(3);
    const found = await Promise.all(revs.map((rev) => store.modules.find(rev)));
    expect(found.map((modules) => modules?.[0]?.version)).toEqual([undefined, undefined, "3.0.0", "4.0.0"]);
    expect(await store.modules.listTarballs([integrity])).toEqual([integrity]);
  });
}
