import { createRequire } from "node:module";
import { dirname } from "node:path";
import type { RuntimeLog } from "./log.ts";
import type { Initialize } from "../messages.ts";

/** Returns the settings of a flow runtime without editor, admin API and module installation. */
export function createSettings(
  { userDir, nodeCloseTimeoutMs, logLevel }: Initialize,
  storageModule: object,
  logHandler: RuntimeLog["handle"],
): object {
  return {
    userDir,
    coreNodesDir: dirname(createRequire(import.meta.url).resolve("@node-red/nodes")),
    storageModule,
    // The parent encrypts credentials at rest.
    credentialSecret: false,
    httpAdminRoot: false,
    disableEditor: true,
    httpNodeRoot: "/",
    telemetry: { enabled: false },
    externalModules: {
      autoInstall: false,
      palette: { allowInstall: false, allowUpload: false },
      modules: { allowInstall: false },
    },
    functionExternalModules: false,
    nodeCloseTimeout: nodeCloseTimeoutMs,
    runtimeState: { enabled: true },
    logging: {
      parent: { level: logLevel, audit: false, metrics: false, handler: () => logHandler },
    },
  };
}

type RegistryPart = { init: (settings: object) => void };

/**
 * Makes the runtime load added modules from `modulesDir` only, or none if it is undefined. It would look in `nodes` and `node_modules`
 * of the user folder, which flows can write. Nodes still get `userDir` as a folder for their files.
 */
export function loadModulesFrom(modulesDir: string | undefined): void {
  const load = createRequire(createRequire(import.meta.url).resolve("@node-red/runtime"));
  redirect(load("@node-red/registry/lib/localfilesystem") as RegistryPart, modulesDir);
  // Without a folder it would take the working directory.
  redirect(load("@node-red/registry/lib/externalModules") as RegistryPart, modulesDir ?? "/dev/null");
}

/** These settings are only used for the folders of modules. */
function redirect(part: RegistryPart, userDir: string | undefined): void {
  const { init } = part;
  part.init = (settings) => init(Object.create(settings, { userDir: { value: userDir } }) as object);
}
