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
