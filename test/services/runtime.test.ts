import { randomBytes } from "node:crypto";
import { join } from "node:path";
import { createClient, createRouterTransport } from "@connectrpc/connect";
import { expect, test } from "vitest";
import { RuntimeService } from "../../gen/flowgate/v1/runtime_pb.ts";
import type { RuntimeStatus } from "@flowgate/runtime";
import { controlMethods } from "../../src/services/runtime.ts";
import { openSqliteStore } from "../../src/store/sqlite/open-store.ts";
import { createFolder } from "../store/builders.ts";

const status: RuntimeStatus = { name: "none", version: "0", state: "running", httpPort: 0, message: undefined };

test("a stop ends when the flows are started before they have ended, and says so", async () => {
  await using folder = await createFolder();
  await using store = await openSqliteStore({ path: join(folder.path, "flowgate.db"), key: randomBytes(32) });
  const { flows, desired } = store;
  const methods = controlMethods({
    store: flows,
    desired,
    audit: { write() {} },
    // Its flows do not end.
    runtime: { status: () => status, onChange: () => ({ [Symbol.dispose]() {} }) },
    allRuntimes: { apply: async () => ({ outcome: "running", missingTypes: [] }) },
    outcomes: { recordStop: async () => {} },
    cluster: undefined,
  });
  const client = createClient(
    RuntimeService,
    createRouterTransport((router) => router.service(RuntimeService, methods)),
  );
  const { promise: isStopping, resolve } = Promise.withResolvers<void>();
  using _ = desired.onChange(resolve);
  const stopping = client.stopFlows({});
  await isStopping;
  await client.startFlows({});
  expect(await stopping).toMatchObject({ started: true, runningReplicas: [] });
});
