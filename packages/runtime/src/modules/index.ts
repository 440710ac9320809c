// Changing the modules of a runtime
export {
  moduleDefaults,
  openModules,
  type ModuleProgress,
  type Modules,
  type ModulesOptions,
  type ReplaceOptions,
} from "./modules.ts";
export type { InstalledModule, InstalledSet } from "./catalog.ts";
export { compareModules, parseWanted, type ComparedModule, type WantedModule } from "./set.ts";
export type { InstallRequest } from "./source.ts";
export { isModuleFailure } from "./errors.ts";

// What a folder contains
export { modulesDirName } from "./folder.ts";
export { readModules } from "./spec.ts";
export { formatModule, isModuleName, isVersionRange, type ModuleSpec } from "@flowgate/base/module-names";
export { signModules } from "./catalog.ts";
export { noneDisabled, readDisabled, type Disabled } from "./disabled.ts";
export { isSetName } from "./disable.ts";
export { listLoadedModules, type LoadedModule, type LoadedSet } from "./loaded-modules.ts";
export { readSubflows } from "./subflows.ts";
export { coreModule, coreSetOf, explainReserved, findCoreDir, scanCore } from "./core-nodes.ts";
export { isNodeRedName } from "@flowgate/base/module-names";

// Which modules may be installed and loaded
export { isAllowed, isModuleRule, listsByName } from "./policy.ts";
export { completeDeny, type ModuleLists } from "@flowgate/base/module-rules";

// The steps of a change, for a command that makes it while no runtime is open
export { cacheName, changeModules, type Staging } from "./change.ts";
export { installPackages, uninstallPackages, type Installation, type PackageSource } from "./install.ts";
export { NpmError, createNpm, type Npm, type NpmOptions } from "./npm.ts";
export { openFolderRegistry } from "./folder-registry.ts";
export { explainAbsent, explainFullDisk } from "./errors.ts";
