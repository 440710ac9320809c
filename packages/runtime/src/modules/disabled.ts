import { join } from "node:path";
import { readOwnManifest } from "@flowgate/base/manifest";

/** Installed modules that must not be loaded, by name, and sets of nodes, including Node-RED's own, as `module/set`. */
export type Disabled = { readonly modules: readonly string[]; readonly sets: readonly string[] };

export const noneDisabled: Disabled = { modules: [], sets: [] };

/** Reads what is disabled, which the package.json of the folder of modules lists. Throws if that can't be read now. */
export function readDisabled(directory: string): Disabled {
  const { disabled } = Object(readOwnManifest(join(directory, "package.json"))["flowgate"]) as {
    readonly disabled?: unknown;
  };
  const ids = Array.isArray(disabled) ? disabled.filter((id) => typeof id === "string").slice(0, maxDisabled) : [];
  return {
    modules: ids.filter((id) => splitSetId(id).set === undefined),
    sets: ids.filter((id) => splitSetId(id).set !== undefined),
  };
}

/** Splits `module/set`, where the name of a module may begin with a scope. */
export function splitSetId(id: string): { readonly module: string; readonly set: string | undefined } {
  const [, module = id, set] = /^((?:@[^/]+\/)?[^/]+)(?:\/([^/]+))?$/.exec(id) ?? [];
  return { module, set };
}

const maxDisabled = 1_000;
