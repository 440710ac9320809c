import { create } from "@bufbuild/protobuf";
import { type HandlerContext, createContextValues } from "@connectrpc/connect";
import { expect, test } from "vitest";
import { PlanFlowsRequestSchema, SetFlowsRequestSchema } from "../../gen/flowgate/v1/flows_pb.ts";
import { DiffRevisionRequestSchema } from "../../gen/flowgate/v1/revisions_pb.ts";
import { peerKey } from "../../src/auth/caller.ts";
import type { Analysis } from "../../src/deployments/analysis/analysis.ts";
import type { Runtime } from "@flowgate/runtime";
import { planFlows } from "../../src/services/flows.ts";
import { findRevision } from "../../src/services/responses.ts";
import { diffRevision, restoreChange } from "../../src/services/revisions.ts";
import type { FlowStore } from "../../src/store/flow-store.ts";
import { draft } from "../store/builders.ts";
import { noModules } from "./no-modules.ts";
import { openFlows } from "./flows-under-test.ts";

type Call = (rev: string, context: HandlerContext, store: FlowStore, analysis: Analysis) => Promise<unknown>;

const diff =
  (restarts: boolean): Call =>
  (rev, context, store, analysis) =>
    diffRevision(create(DiffRevisionRequestSchema, { rev, restarts }), context, { store, analysis, ...noModules });

const calls: Readonly<Record<string, Call>> = {
  restored: async (rev, context, store, analysis) =>
    restoreChange(rev, "full", context, { store, analysis }).apply(store.active()),
  compared: diff(false),
  "compared with its plan": diff(true),
  planned: async (rev, context, store, analysis) => {
    const fields = create(SetFlowsRequestSchema);
    const outcome = { kind: "reload" } as const;
    const preparation = {
      prepare: async () => ({ type: "full", rev: undefined, fields, base: rev, modules: [], outcome }) as const,
    };
    const runtime = {
      status: () => ({ state: "running" }),
      nodeTypes: () => undefined,
      lastResult: () => undefined,
    } as Partial<Runtime> as Runtime;
    return planFlows(create(PlanFlowsRequestSchema), context, {
      store,
      preparation,
      analysis,
      modules: noModules.modules,
      runtime,
      monitor: { outcome: () => ({ state: "running", message: undefined, missingTypes: [] }) },
    });
  },
};

test.each(Object.entries(calls))(
  "the memory of a revision that is %s is held until the thread has ended, also if the client has disconnected",
  async (name, call) => {
    await using flows = await openFlows();
    const { store } = flows;
    const old = await store.commit(draft(store.active().rev));
    await store.commit(draft(old.rev));
    const events: string[] = [];
    const values = createContextValues().set(peerKey, {
      address: "",
      requestId: "",
      async reserveDocument() {
        if (events.at(-1) !== "reserved") {
          events.push("reserved");
        }
      },
      retainMemory() {
        events.push("retained");
        return () => events.push("released");
      },
    });
    const client = new AbortController();
    const work = async () => {
      client.abort();
      events.push("worked");
      return { violation: undefined, bytes: new Uint8Array(), text: undefined };
    };
    const analysis = { diff: work, plan: work, validate: work } as Partial<Analysis> as Analysis;
    const context = {
      values,
      signal: client.signal,
      requestHeader: new Headers(),
    } as Partial<HandlerContext> as HandlerContext;
    await call(old.rev, context, store, analysis);
    // The response of a thread is reserved too.
    const response = name === "restored" ? [] : ["reserved"];
    // The memory of the request is held while it is prepared.
    const prepared = name === "planned" ? ["retained", "released"] : [];
    const expected = [...prepared, "reserved", "retained", "worked", ...response, "released"];
    expect(events).toEqual(expected);
    await expect(call(old.rev, context, store, analysis)).rejects.toThrow("aborted");
    expect(events.slice(expected.length)).toEqual([...prepared, "reserved"]);
  },
);

test("reserves the memory of a revision before it is loaded, but none of the active one", async () => {
  const loaded: string[] = [];
  await using flows = await openFlows();
  const { store } = flows;
  const find: typeof store.find = (rev) => {
    loaded.push(rev);
    return store.find(rev);
  };
  const reserved: number[] = [];
  const values = createContextValues().set(peerKey, {
    address: "",
    requestId: "",
    async reserveDocument(bytes) {
      reserved.push(bytes);
      if (reserved.length > 1) {
        throw new Error("busy");
      }
    },
  });
  await flows.send("POST", "/flows", [{ id: "a", type: "tab" }]);
  const earlier = store.active();
  await flows.send("POST", "/flows", []);
  const read = (rev: string) => findRevision({ ...store, find }, rev, { values });

  expect((await read(store.active().rev)).rev).toBe(store.active().rev);
  expect(reserved).toEqual([]);
  expect((await read(earlier.rev)).rev).toBe(earlier.rev);
  expect(reserved).toEqual([earlier.flows.json.length]);
  await expect(read(earlier.rev)).rejects.toThrow("busy");
  expect(loaded).toEqual([store.active().rev, earlier.rev]);
});
