import { rename, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { type Disabled, splitSetId } from "./disabled.ts";
import { readOwnManifest } from "@flowgate/base/manifest";
import type { InstalledModule } from "./catalog.ts";
import { coreModule } from "./core-nodes.ts";
import { syncPath } from "./sync.ts";

/** Returns the disabled modules and sets after one was enabled or disabled. */
export function changeDisabled(
  before: Disabled,
  { name, sets }: Pick<InstalledModule, "name" | "sets">,
  { isEnabled, set }: { readonly isEnabled: boolean; readonly set: string | undefined },
): Disabled {
  const isOther = (id: string): boolean => splitSetId(id).module !== name;
  const off = sets.filter((each) => (set === undefined || each.name === set ? !isEnabled : !each.isEnabled));
  const kept = off.filter((each) => isSetName(each.name));
  // A module without nodes is for function nodes.
  const isWhole = name !== coreModule && (sets.length === 0 ? !isEnabled : off.length === sets.length);
  return {
    modules: [...before.modules.filter(isOther), ...(isWhole ? [name] : [])],
    sets: [...before.sets.filter(isOther), ...(isWhole ? [] : kept.map((each) => `${name}/${each.name}`))],
  };
}

/** True if a set can be disabled apart from its module: Node-RED takes what is before the last slash for the name of the module. */
export function isSetName(name: string): boolean {
  return name !== "" && !name.includes("/");
}

/** Replaces what a folder of modules lists as not to be loaded. */
export async function writeDisabled(modulesDir: string, { modules, sets }: Disabled): Promise<void> {
  const path = join(modulesDir, "package.json");
  const manifest = { ...readOwnManifest(path), flowgate: { disabled: [...modules, ...sets] } };
  // At once, also if the process is killed, the disk is full or power is lost.
  const next = join(modulesDir, "package.json.next");
  await writeFile(next, `${JSON.stringify(manifest, undefined, 2)}\n`, { flush: true });
  await rename(next, path);
  await syncPath(modulesDir);
}
