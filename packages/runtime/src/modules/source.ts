import { createHash } from "node:crypto";
import { FlowgateError } from "@flowgate/flows/errors";
import { isModuleName, isVersionRange } from "@flowgate/base/module-names";
import { ArchiveError } from "./archive.ts";
import { explainReserved } from "./core-nodes.ts";
import { type PackageSource, assertRequiresRegistry } from "./install.ts";
import type { WantedModule } from "./set.ts";
import { type PackageContent, readPackage } from "./tarball.ts";

/** A package to install, with its content if it was uploaded. */
export type ModuleSource = PackageSource & { readonly tarball?: Uint8Array };

/** Resolves with undefined if no tarball with this hash was uploaded. */
export type FindTarball = (integrity: string) => Promise<Uint8Array | undefined>;

/** A package to install, by its name and a version, range or tag; or its tarball. */
export type InstallRequest = { readonly name: string; readonly version: string } | { readonly tarball: Uint8Array };

/** Validates a request. Throws `invalid_argument`, and `module_failed` for a tarball that requires what comes from elsewhere. */
export async function parseRequest(request: InstallRequest): Promise<ModuleSource> {
  if ("tarball" in request) {
    const { manifest, bundled } = await readUpload(request.tarball);
    const { name, version } = manifest;
    assertFree("tarball", name);
    // Before npm reads what they name, in the network and on the disk of the service.
    for (const each of [manifest, ...bundled]) {
      for (const section of ["dependencies", "optionalDependencies", "peerDependencies"]) {
        assertRequiresRegistry(name, Object(each[section]) as Record<string, unknown>);
      }
    }
    return uploadSource(name, version, request.tarball);
  }
  const { name, version } = request;
  if (!isModuleName(name)) {
    throw new FlowgateError("invalid_argument", "name: must be the name of an npm package, without a version");
  }
  assertFree("name", name);
  if (!isVersionRange(version)) {
    throw new FlowgateError(
      "invalid_argument",
      "version: must be a version, range or tag of a package in a registry, and not a file, URL or git repository",
    );
  }
  return { name, version };
}

async function readUpload(tarball: Uint8Array): Promise<PackageContent> {
  const content = await readPackage(tarball).catch((error: unknown) => {
    throw error instanceof ArchiveError
      ? new FlowgateError("invalid_argument", `tarball: ${error.message}: make it with npm pack`)
      : error;
  });
  if (content === undefined) {
    throw new FlowgateError(
      "invalid_argument",
      "tarball: must be a package of npm, as npm pack makes it, whose package.json has a name and a version",
    );
  }
  return content;
}

function assertFree(field: string, name: string): void {
  const reserved = explainReserved(name);
  if (reserved !== undefined) {
    throw new FlowgateError("invalid_argument", `${field}: ${reserved}`);
  }
}

function uploadSource(name: string, version: string, tarball: Uint8Array): ModuleSource {
  // With a hash, so that npm installs another package of the same version.
  const digest = createHash("sha256").update(tarball).digest("hex").slice(0, 16);
  return { name, version, tarball, upload: `${name.replace("/", "-").replace("@", "")}-${version}-${digest}.tgz` };
}

/** Finds the tarball of an uploaded module by its hash; other modules come from the registry. */
export async function findSource(
  { name, version, integrity }: WantedModule,
  findTarball: FindTarball,
): Promise<ModuleSource> {
  const tarball = integrity === undefined ? undefined : await findTarball(integrity);
  return tarball === undefined
    ? { name, version: version === "" ? undefined : version }
    : uploadSource(name, version, tarball);
}
