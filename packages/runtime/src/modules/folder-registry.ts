import { createHash, randomBytes } from "node:crypto";
import { createReadStream } from "node:fs";
import { readdir } from "node:fs/promises";
import { type IncomingMessage, type ServerResponse, createServer } from "node:http";
import { join } from "node:path";
import { pipeline } from "node:stream/promises";
import semver from "semver";
import { addressOf, listen } from "@flowgate/base/addresses";
import { FlowgateError } from "@flowgate/flows/errors";
import { type PackageManifest, readPackageManifest } from "./tarball.ts";

type Tarball = { readonly file: string; readonly manifest: PackageManifest };

/** A registry of npm on this machine, for as long as it is not disposed. */
export interface FolderRegistry extends AsyncDisposable {
  readonly url: string;
}

/**
 * Serves the packages of a folder, which are .tgz files as `npm pack` makes them, as a registry on loopback, so that npm selects versions
 * among them as it does elsewhere. Its URL contains a secret: other users of the machine, and flows, can't read the packages.
 */
export async function openFolderRegistry(folder: string): Promise<FolderRegistry> {
  const tarballs = await readTarballs(folder);
  const secret = randomBytes(16).toString("hex");
  const server = createServer((request, response) => {
    respond(request, response).catch(() => response.destroy());
  });
  await listen(server, "127.0.0.1", 0);
  const url = `http://127.0.0.1:${addressOf(server).port}/${secret}`;

  async function respond(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const [, first, ...rest] = decodeURIComponent(request.url ?? "").split("/");
    const path = first === secret ? rest.join("/") : "";
    const tarball = tarballs.find(({ file }) => path === `-/${file}`);
    if (tarball !== undefined) {
      await pipeline(createReadStream(join(folder, tarball.file)), response);
      return;
    }
    const versions = tarballs.filter(({ manifest }) => manifest.name === path);
    response.writeHead(versions.length === 0 ? 404 : 200, { "content-type": "application/json" });
    response.end(JSON.stringify(versions.length === 0 ? { error: "not found" } : await describe(path, versions)));
  }

  /** The metadata of a package that npm reads, in the abbreviated form. */
  async function describe(name: string, versions: readonly Tarball[]): Promise<object> {
    // As in other registries, a version has no build metadata. The last of those that differ in it only is the one.
    const byVersion = new Map(
      versions
        .toSorted((one, other) => semver.compareBuild(one.manifest.version, other.manifest.version))
        .map((each) => [semver.valid(each.manifest.version) ?? each.manifest.version, each]),
    );
    const entries = [...byVersion].map(async ([version, { file, manifest }]) => {
      const dist = { tarball: `${url}/-/${encodeURIComponent(file)}`, integrity: await hash(join(folder, file)) };
      return [
        version,
        { ...manifest, version, ...(hasInstallScript(manifest) && { hasInstallScript: true }), dist },
      ] as const;
    });
    const sorted = [...byVersion.keys()];
    const latest = sorted.findLast((version) => semver.prerelease(version) === null) ?? sorted.at(-1);
    return { name, "dist-tags": { latest }, versions: Object.fromEntries(await Promise.all(entries)) };
  }

  return {
    url,
    async [Symbol.asyncDispose]() {
      server.close();
      server.closeAllConnections();
    },
  };
}

async function readTarballs(folder: string): Promise<Tarball[]> {
  const names = await readdir(folder).catch(() => undefined);
  if (names === undefined) {
    throw new FlowgateError(
      "registry_unavailable",
      "the folder of modules.registry can't be read: check the configuration",
    );
  }
  const tarballs: Tarball[] = [];
  for (const file of names.filter((name) => name.endsWith(".tgz"))) {
    const manifest = await readPackageManifest(join(folder, file));
    if (manifest !== undefined && semver.valid(manifest.version) !== null) {
      tarballs.push({ file, manifest });
    }
  }
  return tarballs;
}

async function hash(path: string): Promise<string> {
  const digest = createHash("sha512");
  await pipeline(createReadStream(path), digest);
  return `sha512-${digest.digest("base64")}`;
}

/** As npm finds out whether a package has install scripts. */
function hasInstallScript({ scripts }: PackageManifest): boolean {
  return ["preinstall", "install", "postinstall"].some((name) => name in (Object(scripts) as object));
}
