import { randomBytes } from "node:crypto";
import { join } from "node:path";
import { pino } from "pino";
import { expect, test } from "vitest";
import { openOutcomeRecorder } from "../../src/deployments/outcome-recorder.ts";
import { createListeners } from "../../src/base/listeners.ts";
import type { RevisionResult } from "../../src/runtime/runtime.ts";
import { openSqliteStore } from "../../src/store/sqlite/open-store.ts";
import { createMemoryCluster } from "../runtime/replicas/memory-cluster.ts";
import { run, status } from "../runtime/replicas/statuses.ts";
import { createFolder, draft } from "../store/builders.ts";

test("records a failure of one of several replicas at once, and that flows run when they do on all", async () => {
  await using folder = await createFolder();
  await using store = await openSqliteStore({ path: join(folder.path, "flowgate.db"), key: randomBytes(32) });
  const revision = await store.flows.commit(draft(store.flows.active().rev));
  const { rev, seq } = revision;
  const cluster = createMemoryCluster();
  const [here, there] = [cluster.join(), cluster.join()];
  here.report(status("here"));
  there.report(status("there", { run: run({ seq: seq - 1 }) }));
  const results = createListeners<RevisionResult>();
  using recorder = openOutcomeRecorder({
    store: store.flows,
    runtime: { onResult: (listener) => results.add(listener) },
    cluster: here,
    desired: store.desired,
    log: pino({ level: "silent" }),
  });
  /** Resolves with the outcome after all notifications and writes. */
  const outcome = async () => {
    await new Promise(setImmediate);
    await recorder.flush();
    return (await store.flows.findEntry(rev))?.outcome;
  };

  results.notify({ revision, result: { outcome: "running", missingTypes: [] } });
  expect((await outcome())?.state).toBe("pending");
  there.report(status("there", { run: run({ rev, seq, outcome: "failed" }) }));
  expect((await outcome())?.state).toBe("pending");
  there.report(status("there", { run: run({ rev, seq }) }));
  expect((await outcome())?.state).toBe("running");

  results.notify({ revision, result: { outcome: "failed", missingTypes: ["x"], message: "missing node types: x" } });
  expect(await outcome()).toEqual({ state: "failed", missingTypes: ["x"], message: "here: missing node types: x" });
  there.report(status("there", { run: run({ rev, seq }) }));
  expect((await outcome())?.state).toBe("failed");
  results.notify({ revision, result: { outcome: "running", missingTypes: [] } });
  expect(await outcome()).toEqual({ state: "running", missingTypes: [], message: undefined });
});
