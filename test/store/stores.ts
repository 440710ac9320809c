import { randomBytes } from "node:crypto";
import { join } from "node:path";
import { systemOrigin, type AuditRecord } from "../../src/store/audit-store.ts";
import type { RevisionDraft } from "../../src/store/flow-store.ts";
import type { ProposalDraft } from "../../src/store/proposal-store.ts";
import { openStore, type StoreOptions } from "../../src/store/open-store.ts";
import type { Store } from "../../src/store/store.ts";
import { token } from "../auth/memory-tokens.ts";
import { documentOf } from "../../packages/flows/test/builders.ts";
import { createDatabase } from "../postgres/postgres.ts";
import { createFolder, draft } from "./builders.ts";

/** An unused location for a store, with a data directory of its own. */
export type Place = AsyncDisposable & { readonly store: string; readonly dataDir: string };

export async function createSqlitePlace(): Promise<Place> {
  const folder = await createFolder();
  return {
    store: `sqlite:${join(folder.path, "flowgate.db")}`,
    dataDir: folder.path,
    [Symbol.asyncDispose]: () => folder[Symbol.asyncDispose](),
  };
}

export async function createPostgresPlace(): Promise<Place> {
  await using stack = new AsyncDisposableStack();
  const { path } = stack.use(await createFolder());
  const { url } = stack.use(await createDatabase());
  const resources = stack.move();
  return { store: url, dataDir: path, [Symbol.asyncDispose]: () => resources.disposeAsync() };
}

export const record: AuditRecord = { kind: "token_created", origin: { ...systemOrigin, by: "ada" }, detail: "Zoë 🔑" };

/** Fills a store with revisions, tokens and audit entries of random content. */
export async function fillStore(options: StoreOptions, revisions: number): Promise<void> {
  await using store = await openStore(options);
  for (let count = 0; count < revisions; count += 1) {
    const { rev } = await store.flows.commit(randomDraft(store.flows.active().rev, count));
    if (count % 5 === 0) {
      const missingTypes = ["a type", "eine Ärt"];
      await store.flows.update(rev, {
        pinned: count % 2 === 0,
        outcome: { state: "failed", message: "a \n reason", missingTypes },
        probationMs: undefined,
      });
    }
  }
  const tokens = [token({ name: "ci ⚙" }), token({ createdAtMs: undefined }), token({ username: "Ünal", scope: "" })];
  for (const each of tokens) {
    await store.tokens.insert(each, record);
  }
  await store.tokens.remove({ id: tokens[1]?.id ?? "" }, record);
  await store.tokens.recordUses(new Map([[tokens[0]?.id ?? "", 1_700_000_000_123]]));
  await store.desired.set(false, { ...record, kind: "flows_stopped" });
  await store.documents.put({ name: "library/functions/ä", details: "{}", content: "return msg;", by: "ada" });
  for (const id of ["p1", "p2"]) {
    await store.proposals.create(proposal(store.flows.active().rev, id), record, { perUser: 10, total: 10 });
  }
  await store.proposals.close("p1", { state: "rejected", reason: "no ⚙" }, { ...record, kind: "proposal_rejected" });
  await store.context.write([{ store: "default", scope: "global", key: "ä", json: '{"n":1}' }], undefined);
  await store.settings.write([{ name: "ä", json: '"s3cret"' }], undefined);
  const written = new Map([["n0", new Map([["token", "the s3cret of a node"]])]]);
  await store.flows.writeCredentials({ sets: written, sinceSeq: undefined, token: undefined });
  const { rev } = store.flows.active();
  const contrib = { name: "contrib-öne", version: "1.0.0", integrity: "sha512-x", types: ["one"] };
  await store.modules.record(rev, [contrib], await store.modules.find(rev));
  await store.modules.putTarball({ integrity: "sha512-x", content: randomBytes(1_000) });
  await store.flows.prune({ maxCount: Math.max(2, revisions - 1), maxAgeMs: undefined });
}

function proposal(base: string, id: string): ProposalDraft {
  return {
    ...record.origin,
    id,
    base,
    deploymentType: "nodes",
    message: "Zoë 🔑",
    waitMs: undefined,
    undoOnFailure: false,
    maxErrors: 0,
    changes: [{ id: "a", kind: "tab", labels: ["Ä"] }],
    modules: [{ name: "contrib-öne", version: "^1.0.0", integrity: "sha512-x" }],
    digest: "digest",
    flows: documentOf([{ id: "n", type: "inject", name: "Zoë 🔑" }]),
    credentials: "the s3cret of a proposal",
    lifetimeMs: 3_600_000,
  };
}

function randomDraft(parent: string, count: number): RevisionDraft {
  const text = (bytes: number): string => randomBytes(bytes).toString("utf8").replaceAll("\0", "");
  return draft(parent, {
    by: count % 3 === 0 ? undefined : text(8),
    requestId: text(12),
    deploymentType: count % 2 === 0 ? "full" : "nodes",
    message: count % 4 === 0 ? text(40) : undefined,
    probationMs: count % 7 === 0 ? 30_000 : undefined,
    idempotencyKey: count % 3 === 1 ? { key: `Ä${text(4)}`, fingerprint: new Uint8Array(randomBytes(32)) } : undefined,
    flows: documentOf([{ id: `n${count}`, type: text(500), name: "Zoë 🔑" }]),
    credentials: count % 2 === 0 ? new Map() : new Map([[`n${count}`, new Map([["__proto__", text(30)]])]]),
  });
}

/** One operation after the other: at PostgreSQL, those that wait for many others fail. */
async function inTurn<Item, Result>(
  items: readonly Item[],
  operation: (item: Item) => Promise<Result>,
): Promise<Result[]> {
  const results: Result[] = [];
  for (const item of items) {
    results.push(await operation(item));
  }
  return results;
}

/** All revisions with their flows, credentials and states, and all tokens. */
export async function readContent(store: Store): Promise<unknown> {
  const { revisions } = await store.flows.list({ limit: 10_000 });
  const contents = await inTurn(revisions, ({ rev }) => store.flows.find(rev));
  const { tokens } = await store.tokens.list({ limit: 1_000, nowMs: 0 });
  const { proposals } = await store.proposals.list({ limit: 1_000 });
  const proposed = await inTurn(proposals, ({ id }) => store.proposals.find(id));
  return {
    revisions,
    contents: contents.map((each) => ({ flows: each?.flows.json.toString(), credentials: each?.credentials })),
    desired: store.desired.current(),
    proposals: proposed.map((each) => ({ ...each, flows: each?.flows.json.toString() })),
    tokens,
    unclaimed: store.flows.unclaimedCredentials(),
    settings: await store.settings.read(),
  };
}
