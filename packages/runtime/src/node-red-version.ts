import { keepLast, readOwnManifest } from "@flowgate/base/manifest";
import { resolvePackage } from "@flowgate/base/resolve-package";

/** The version of the Node-RED that is installed with this package. */
export const readNodeRedVersion = keepLast((): string => {
  const { version } = readOwnManifest(resolvePackage("@node-red/runtime/package.json", import.meta.url));
  return String(version);
});
