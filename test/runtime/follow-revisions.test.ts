import { randomBytes } from "node:crypto";
import { join } from "node:path";
import { expect, test } from "vitest";
import { followRevisions } from "../../src/runtime/follow-revisions.ts";
import { openSqliteStore } from "../../src/store/sqlite/open-store.ts";
import type { RevisionEvent } from "../../src/store/flow-store.ts";
import type { Revision } from "../../src/store/revision.ts";
import { createListeners } from "../../src/base/listeners.ts";
import { createFolder, draft } from "../store/builders.ts";
import { revision } from "./builders.ts";

test("applies revisions of other processes only, as full deployments after a skipped one", async () => {
  await using folder = await createFolder();
  const options = { path: join(folder.path, "flowgate.db"), key: randomBytes(32) };
  await using here = await openSqliteStore(options);
  await using there = await openSqliteStore(options);
  const applied: [Revision, string][] = [];
  const following = followRevisions(here.flows, {
    async apply(revision, type) {
      applied.push([revision, type]);
      return { outcome: "running", missingTypes: [] };
    },
  });
  const commitTo = (store: typeof here, deploymentType: "nodes" | "full") =>
    store.flows.commit(draft(store.flows.active().rev, { deploymentType }));

  await commitTo(there, "full");
  const second = await commitTo(there, "nodes");
  // A store with a single writer reads it on `reload`; one with several writers would do so by itself.
  await here.flows.reload();
  const third = await commitTo(there, "nodes");
  await here.flows.reload();
  expect(applied).toEqual([
    [second, "full"],
    [third, "nodes"],
  ]);

  await commitTo(here, "nodes");
  expect(applied).toHaveLength(2);
  await there.flows.reload();
  const last = await commitTo(there, "nodes");
  await here.flows.reload();
  expect(applied.slice(2)).toEqual([[last, "nodes"]]);

  following[Symbol.dispose]();
  await commitTo(there, "nodes");
  await here.flows.reload();
  expect(applied).toHaveLength(3);
});

test("reloads the flows when another process does", async () => {
  const applied: string[] = [];
  const events = createListeners<RevisionEvent>();
  using _ = followRevisions(
    { active: () => revision(1, []), onRevision: (listener) => events.add(listener) },
    {
      async apply({ rev }, type) {
        applied.push(`${rev} ${type}`);
        return { outcome: "running", missingTypes: [] };
      },
    },
  );
  events.notify({ revision: revision(1, []), isOwn: false, isReload: true });
  expect(applied).toEqual(["r1 reload"]);
});
