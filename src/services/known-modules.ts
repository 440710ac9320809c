import type { KnownModule } from "@flowgate/flows";
import type { Modules, WantedModule } from "@flowgate/runtime/modules";

/** The installed modules, and the modules that a deployment would install. Throws `module_refused`. */
export async function findKnownModules(
  modules: Pick<Modules, "list" | "compare">,
  wanted: readonly (WantedModule & { readonly types?: readonly string[] })[],
): Promise<readonly KnownModule[]> {
  const compared = await modules.compare(wanted);
  const named = new Set(wanted.map(({ name }) => name));
  const declared = compared.map(({ wanted: { name, version }, installed, state }, index): KnownModule => {
    const types = installed?.types ?? wanted[index]?.types ?? [];
    const installedVersion = installed?.version;
    const planned = state === "present" ? (installedVersion ?? version) : version;
    return { name, state, version: planned === "" ? "latest" : planned, installedVersion, types, isDeclared: true };
  });
  const others = (await modules.list())
    .filter(({ name }) => !named.has(name))
    .map(({ name, version = "", types }): KnownModule => ({
      name,
      state: "present",
      version,
      installedVersion: version,
      types,
      isDeclared: false,
    }));
  return [...declared, ...others];
}
