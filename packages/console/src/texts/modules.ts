export const texts = {
  ofReplica: (replica: string) => `These are the modules of the replica ${replica}.`,

  typeCount: (count: number) => (count === 1 ? "1 type" : `${count} types`),
  uses: (nodes: number, flows: number) =>
    `${nodes} ${nodes === 1 ? "node" : "nodes"}${flows === 0 ? "" : ` in ${flows} ${flows === 1 ? "flow" : "flows"}`}`,

  providedByDisabled: (name: string) => `${name}, which is disabled`,

  install: "Install",

  update: "Update",
  updateTitle: (name: string) => `Install another version of ${name}`,
  updateHint: (version: string) => `Version ${version} is installed now.`,
  enable: "Enable",
  enableTitle: (name: string) => `Enable ${name}?`,
  disable: "Disable",
  disableTitle: (name: string) => `Disable ${name}?`,
  remove: "Remove",
  removeTitle: (name: string) => `Remove ${name}?`,
  inUse: (nodes: number) =>
    `The active flows have ${nodes} ${nodes === 1 ? "node" : "nodes"} of its types, and would not be started without it.`,

  progress: (action: string, module: string) => `${actionTexts.get(action) ?? action} ${module}`,
  changed: {
    install: (module: string) => `${module} is installed.`,
    update: (module: string) => `${module} is installed.`,
    remove: (module: string) => `${module} was removed.`,
    enable: (module: string) => `${module} is enabled.`,
    disable: (module: string) => `${module} is disabled.`,
  },
  stillMissing: (types: string) => `They are not started, since these node types are missing: ${types}.`,
  scriptsNotRun: (packages: string) =>
    `Install scripts were not run of: ${packages}. If they need them, name them in modules.scripts of the configuration.`,
  scriptsNeverRun: (packages: string) =>
    `Install scripts are never run of packages that were uploaded, or that a module brings: ${packages}.`,
} as const;

const actionTexts: ReadonlyMap<string, string> = new Map([
  ["install", "Installing"],
  ["update", "Updating"],
  ["remove", "Removing"],
  ["enable", "Enabling"],
  ["disable", "Disabling"],
]);
