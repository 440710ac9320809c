import { randomBytes } from "node:crypto";
import { join } from "node:path";
import { pino } from "pino";
import { type Flowgate, openFlowgate } from "../../src/app/flowgate.ts";
import { parseOptions, type OptionsInput } from "../../src/options/parse.ts";
import type { FlowStore, RevisionDraft } from "../../src/store/flow-store.ts";
import type { Revision } from "../../src/store/revision.ts";
import { openSqliteStore } from "../../src/store/sqlite/open-store.ts";
import type { Store } from "../../src/store/store.ts";
import { type Reply, type Sending, send } from "../e2e/rest.ts";
import { eventually } from "../e2e/service.ts";
import { createFolder } from "../store/builders.ts";
import { createMemoryCluster } from "./memory-cluster.ts";

type ReplicaOptions = {
  readonly runtime: OptionsInput["runtime"];
  /** Called before it starts, with its data directory. */
  readonly prepare?: (dataDir: string) => Promise<void>;
};

export type ReplicaUnderTest = Flowgate & { send(method: string, path: string, sending?: Sending): Promise<Reply> };

export type Replicas<Names extends string> = AsyncDisposable &
  Readonly<Record<Names, ReplicaUnderTest>> & {
    /** Commits like a replica that then ends. */
    commitElsewhere(draft: RevisionDraft): Promise<Revision>;
    /** Reads the active revision from the store, whatever the replicas know of it yet. */
    readActive(): Promise<Revision>;
  };

/** Starts several replicas in this process, and waits until they are ready. */
export async function openReplicas<Names extends string>(
  replicas: Readonly<Record<Names, ReplicaOptions>>,
): Promise<Replicas<Names>> {
  await using stack = new AsyncDisposableStack();
  const folder = stack.use(await createFolder());
  const shared = { path: join(folder.path, "shared.db"), key: randomBytes(32) };
  const cluster = createMemoryCluster();
  const stores: FlowStore[] = [];
  const gateways: Partial<Record<string, ReplicaUnderTest>> = {};
  for (const [name, { runtime, prepare }] of Object.entries<ReplicaOptions>(replicas)) {
    const opened = stack.use(await openSqliteStore(shared));
    stores.push(opened.flows);
    const store: Store = { ...opened, cluster: cluster.join(), flows: notifying(opened.flows, stores) };
    const dataDir = join(folder.path, name);
    await prepare?.(dataDir);
    const options = parseOptions({ port: 0, dataDir, runtime: { port: 0, ...runtime } });
    const gateway = stack.use(await openFlowgate({ ...options, store }, pino({ level: "silent" })));
    gateways[name] = { ...gateway, send: (...request) => send(gateway.url, ...request) };
  }
  await eventually(async () => {
    for (const gateway of Object.values(gateways)) {
      const reply = await gateway?.send("GET", "/readyz");
      if (reply?.status !== 200) {
        throw new Error(reply?.body);
      }
    }
  });
  const elsewhere = stack.use(await openSqliteStore(shared)).flows;
  stores.push(elsewhere);
  const resources = stack.move();
  return {
    ...(gateways as Record<Names, ReplicaUnderTest>),
    commitElsewhere: (draft) => notifying(elsewhere, stores).commit(draft),
    readActive: () => elsewhere.reload(),
    [Symbol.asyncDispose]: () => resources.disposeAsync(),
  };
}

/** SQLite does not notify the other processes of a commit. */
function notifying(store: FlowStore, all: readonly FlowStore[]): FlowStore {
  return {
    ...store,
    async commit(...call) {
      const revision = await store.commit(...call);
      for (const other of all) {
        if (other !== store) {
          void other.reload();
        }
      }
      return revision;
    },
  };
}
