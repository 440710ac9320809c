import semver from "semver";
import { FlowgateError } from "@flowgate/flows/errors";
import { maxModules } from "./spec.ts";
import { isModuleName, isVersionRange } from "@flowgate/base/module-names";
import type { InstalledModule } from "./catalog.ts";
import { explainReserved } from "./core-nodes.ts";

/** A module that flows need. */
export type WantedModule = {
  readonly name: string;
  /** Exact, a range or a tag. Empty: any that is installed, or else the newest. */
  readonly version: string;
  /** The hash of its tarball (Subresource Integrity); undefined: any. */
  readonly integrity: string | undefined;
};

export type ComparedModule = {
  readonly wanted: WantedModule;
  /** Undefined: none of this name is installed. */
  readonly installed: InstalledModule | undefined;
  readonly state: "missing" | "present" | "upgraded";
};

/** Validates the modules that a request names. Throws `invalid_argument`. */
export function parseWanted(modules: readonly WantedModule[]): readonly WantedModule[] {
  if (modules.length > maxModules) {
    throw invalid("modules", `must be at most ${maxModules}`);
  }
  const names = new Set<string>();
  for (const [index, { name, version, integrity }] of modules.entries()) {
    const path = `modules[${index}]`;
    if (!isModuleName(name)) {
      throw invalid(`${path}.name`, "must be the name of an npm package, without a version");
    }
    const reserved = explainReserved(name);
    if (reserved !== undefined) {
      throw invalid(`${path}.name`, reserved);
    }
    if (names.has(name)) {
      throw invalid(`${path}.name`, `${name} is named twice`);
    }
    names.add(name);
    if (version !== "" && !isVersionRange(version)) {
      throw invalid(`${path}.version`, "must be a version, range or tag of a package in a registry");
    }
    if (integrity !== undefined && !/^sha512-[\w+/]{86}==$/.test(integrity)) {
      throw invalid(`${path}.integrity`, "must be the hash of a tarball, such as sha512-…");
    }
  }
  return modules;
}

function invalid(path: string, problem: string): FlowgateError {
  return new FlowgateError("invalid_argument", `${path}: ${problem}`);
}

/** Finds out which of these modules have to be installed. */
export function compareModules(
  installed: readonly InstalledModule[],
  wanted: readonly WantedModule[],
): readonly ComparedModule[] {
  const byName = new Map(installed.map((module) => [module.name, module]));
  return wanted.map((each) => {
    const found = byName.get(each.name);
    if (found === undefined) {
      return { wanted: each, installed: found, state: "missing" };
    }
    return { wanted: each, installed: found, state: satisfies(found, each) ? "present" : "upgraded" };
  });
}

type Named = { readonly name: string };

/** Throws `module_failed` if there would be more modules in the folder than it can have. */
export function assertModuleLimit(installed: readonly Named[], added: readonly Named[]): void {
  const names = new Set(installed.map(({ name }) => name));
  const others = new Set(added.map(({ name }) => name)).difference(names);
  if (others.size > 0 && names.size + others.size > maxModules) {
    throw new FlowgateError(
      "module_failed",
      `${[...others].join(", ")}: at most ${maxModules} modules can be installed, and ${installed.length} are: remove some first. ` +
        "The modules remain as they were",
    );
  }
}

/** A tag is not looked up if any version is installed. What was installed by hand has no hash, and its version decides. */
function satisfies(installed: InstalledModule, { version, integrity }: WantedModule): boolean {
  const isSame = installed.integrity === undefined || integrity === undefined || installed.integrity === integrity;
  if (!isSame || installed.version === undefined) {
    return false;
  }
  const range = semver.validRange(version);
  return version === "" || range === null || semver.satisfies(installed.version, version);
}

/** Throws if a package has another content than it must have. */
export function assertHashes(installed: readonly InstalledModule[], compared: readonly ComparedModule[]): void {
  for (const { name, version = "", integrity } of installed) {
    const wanted = compared.find((each) => each.wanted.name === name)?.wanted.integrity;
    if (wanted !== undefined && integrity !== wanted) {
      throw new FlowgateError(
        "module_failed",
        `${name}@${version}: the registry has another package of this version than the one that is needed, whose hash is ${wanted}. ` +
          "The modules remain as they were",
      );
    }
  }
}
