import { createClient } from "@connectrpc/connect";
import { setTimeout as delay } from "node:timers/promises";
import { expect, test } from "vitest";
import { FlowsService } from "../../gen/flowgate/v1/flows_pb.ts";
import { prepareDeployment } from "../../src/deployments/preparation/prepare-deployment.ts";
import { sets } from "../../packages/flows/test/builders.ts";
import { draft } from "../store/builders.ts";
import { openFlows } from "./flows-under-test.ts";

test("a deployment keeps credentials that another deployment sets during its preparation", async () => {
  let isFirst = true;
  await using flows = await openFlows({
    prepare: (store) => async (request, current) => {
      const prepared = await prepareDeployment(request, current.credentials, () => new Map());
      if (isFirst) {
        isFirst = false;
        const credentials = sets({ a: { password: "from the other deployment" } });
        await store.commit(draft(store.active().rev, { credentials }));
      }
      return prepared;
    },
  });
  await createClient(FlowsService, flows.transport).setFlows({
    flows: [
      { id: "a", type: "inject" },
      { id: "b", type: "t", credentials: { values: { user: "own" } } },
    ],
  });
  const active = flows.store.active();
  expect(active.flows.nodes).toEqual([
    { id: "a", type: "inject" },
    { id: "b", type: "t" },
  ]);
  expect(active.credentials).toEqual(sets({ a: { password: "from the other deployment" }, b: { user: "own" } }));
});

test("commit and start of the flows are part of the time that a deployment waits for them", async () => {
  await using flows = await openFlows({
    wrap: (store) => ({
      ...store,
      async commit(...parameters) {
        const revision = await store.commit(...parameters);
        // Longer than what is reserved for the response.
        await delay(1_000);
        return revision;
      },
    }),
    apply: (_revision, _type, _trace, { withinMs } = {}) =>
      delay(withinMs, { outcome: "pending", missingTypes: [] } as const),
  });
  const limits = { "x-server-timeout": "5", "service-deployment-wait": "60" };
  const reply = await flows.send("POST", "/flows", [], limits);
  expect([reply.status, reply.headers["service-deployment-outcome"]]).toEqual([204, "pending"]);
});
