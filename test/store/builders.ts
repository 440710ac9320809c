import { mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { RevisionDraft } from "../../src/store/flow-store.ts";
import { documentOf } from "../../packages/flows/test/builders.ts";

export interface Folder extends AsyncDisposable {
  readonly path: string;
}

export async function createFolder(): Promise<Folder> {
  const path = await mkdtemp(join(tmpdir(), "flowgate-store-"));
  return { path, [Symbol.asyncDispose]: () => rm(path, { recursive: true, force: true }) };
}

export async function readFolder(path: string): Promise<Map<string, Buffer>> {
  const names = await readdir(path);
  return new Map(await Promise.all(names.map(async (name) => [name, await readFile(join(path, name))] as const)));
}

export function draft(parent: string, init: Partial<RevisionDraft> = {}): RevisionDraft {
  return {
    parent,
    by: "ada",
    address: "127.0.0.1",
    protocol: "rest",
    requestId: undefined,
    deploymentType: "full",
    cause: "deployment",
    restoredRev: undefined,
    message: undefined,
    probationMs: undefined,
    idempotencyKey: undefined,
    flows: documentOf([{ id: "a", type: "inject", name: "Zoë 🔑", wires: [["b"]], nothing: null }]),
    credentials: new Map([["a", new Map([["password", "s3cret"]])]]),
    kept: new Map(),
    ...init,
  };
}
