import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { expect } from "vitest";
import { parse, parseAllDocuments } from "yaml";
import type { Manifest } from "./kubernetes-check.ts";
import { root } from "./stage.ts";

export type Kustomization = {
  resources: string[];
  patches?: { path: string }[];
  secretGenerator: { name: string; behavior?: string; files: string[] }[];
  images?: { name: string; newName: string; newTag: string }[];
};

/** The folders of kustomizations. The second one is an overlay of the first. */
export const folders = { one: join(root, "deploy/kubernetes"), replicas: join(root, "deploy/kubernetes-replicas") };

export async function readKustomization(folder: string): Promise<Kustomization> {
  return parse(await readFile(join(folder, "kustomization.yaml"), "utf8")) as Kustomization;
}

/**
 * Returns new copies of the manifests, which a test may change: the resources with the patches applied. Names of images and Secrets
 * are left as they are.
 */
export async function readManifests(folder: string): Promise<Manifest[]> {
  const { resources, patches = [] } = await readKustomization(folder);
  const manifests = await Promise.all(
    resources.map((path) =>
      path.endsWith(".yaml") ? readDocuments(join(folder, path)) : readManifests(join(folder, path)),
    ),
  );
  const patched = await Promise.all(patches.map(({ path }) => readDocuments(join(folder, path))));
  return patched.flat().reduce(applyPatch, manifests.flat());
}

export async function readDocuments(path: string): Promise<Manifest[]> {
  return parseAllDocuments(await readFile(path, "utf8")).map((document) => {
    expect([...document.errors, ...document.warnings]).toEqual([]);
    return document.toJS() as Manifest;
  });
}

function applyPatch(manifests: Manifest[], patch: Manifest): Manifest[] {
  const isTarget = ({ kind, metadata }: Manifest): boolean =>
    kind === patch.kind && metadata.name === patch.metadata.name;
  expect(manifests.filter(isTarget)).toHaveLength(1);
  return manifests.map((manifest) => (isTarget(manifest) ? (merge(manifest, patch) as Manifest) : manifest));
}

/** A strategic merge as far as the patches need it: maps are merged, lists by the names of their items, all else is replaced. */
function merge(base: unknown, patch: unknown): unknown {
  if (isNamedList(base) && isNamedList(patch)) {
    const added = patch.filter(({ name }) => !base.some((item) => item.name === name));
    return [...base.map((item) => merge(item, patch.find(({ name }) => name === item.name) ?? {})), ...added];
  }
  if (isMap(base) && isMap(patch)) {
    return {
      ...base,
      ...Object.fromEntries(Object.entries(patch).map(([key, value]) => [key, merge(base[key], value)])),
    };
  }
  return patch;
}

function isMap(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function isNamedList(value: unknown): value is { name: unknown }[] {
  return Array.isArray(value) && value.every((item) => isMap(item) && "name" in item);
}
