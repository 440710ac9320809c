import { createClient, createRouterTransport } from "@connectrpc/connect";
import { randomBytes } from "node:crypto";
import { join } from "node:path";
import { pino } from "pino";
import { expect, test } from "vitest";
import { FlowsService } from "../../gen/flowgate/v1/flows_pb.ts";
import { openAnalysis } from "../../src/analysis/analysis.ts";
import { createObservedDeployer } from "../../src/deployments/observe.ts";
import { createProbations } from "../../src/deployments/probations.ts";
import { prepareDeployment } from "../../src/flows/prepare.ts";
import type { Runtime } from "../../src/runtime/runtime.ts";
import { flowsService } from "../../src/services/flows/service.ts";
import { openSqliteStore } from "../../src/store/sqlite/open-store.ts";
import { silentObserver } from "../../src/telemetry/observer.ts";
import { sets } from "../flows/builders.ts";
import { createFolder, draft } from "../store/builders.ts";

/** A runtime that starts any flows. */
const runtime = {
  apply: async () => ({ outcome: "running", missingTypes: [] }),
  status: () => ({ name: "none", version: "0", state: "running", httpPort: 0, message: undefined }),
} as Partial<Runtime> as Runtime;

const log = pino({ level: "silent" });

function decrypt(): never {
  throw new Error("nothing is encrypted here");
}

test("a deployment keeps credentials that another deployment sets during its preparation", async () => {
  await using folder = await createFolder();
  await using analysis = openAnalysis(log);
  await using store = await openSqliteStore({ path: join(folder.path, "flowgate.db"), key: randomBytes(32) });
  let isFirst = true;
  const transport = createRouterTransport((router) =>
    router.service(
      FlowsService,
      flowsService({
        store: store.flows,
        deployer: createObservedDeployer({
          store: store.flows,
          audit: store.audit,
          runtime,
          probations: createProbations({ store: store.flows, runtime, log }),
          observer: silentObserver,
          log,
        }),
        decrypt,
        analysis,
        runtime,
        async prepare(request, current) {
          const prepared = await prepareDeployment(request, current, decrypt);
          if (isFirst) {
            isFirst = false;
            const credentials = sets({ a: { password: "from the other deployment" } });
            await store.flows.commit(draft(store.flows.active().rev, { credentials }));
          }
          return prepared;
        },
      }),
    ),
  );
  const client = createClient(FlowsService, transport);
  await client.setFlows({
    flows: [
      { id: "a", type: "t" },
      { id: "b", type: "t", credentials: { values: { user: "own" } } },
    ],
  });
  const { flows, credentials } = store.flows.active();
  expect(flows.nodes).toEqual([
    { id: "a", type: "t" },
    { id: "b", type: "t" },
  ]);
  expect(credentials).toEqual(sets({ a: { password: "from the other deployment" }, b: { user: "own" } }));
});
