import { createHash } from "node:crypto";
import { execFileSync } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { writeFiles } from "../planted-code.ts";

/** A package: the members of its package.json besides the name, and its other files by their paths. */
export type Package = {
  readonly name: string;
  readonly version: string;
  readonly manifest?: {
    readonly scripts?: object;
    readonly dependencies?: object;
    readonly peerDependencies?: object;
    readonly bundleDependencies?: readonly string[];
    readonly _hasShrinkwrap?: boolean;
    readonly "node-red"?: object;
  };
  readonly files?: Readonly<Record<string, string>>;
  /** Whether its tarball is sent without an end. */
  readonly stalls?: boolean;
  /** The name in its package.json, if it is another one. */
  readonly packedName?: string;
};

export type NpmRegistry = AsyncDisposable & {
  readonly url: string;
  /** Resolves once the tarball of a package is requested. */
  untilRequested(name: string): Promise<void>;
};

/** Starts a registry of npm on loopback that has these packages. */
export async function openNpmRegistry(packagesOf: (url: string) => readonly Package[]): Promise<NpmRegistry> {
  const tarballs = new Map<string, Buffer>();
  const requested = new Map<string, PromiseWithResolvers<void>>();
  const request = (name: string): PromiseWithResolvers<void> => {
    const found = requested.get(name) ?? Promise.withResolvers<void>();
    requested.set(name, found);
    return found;
  };
  const server = createServer(({ url: target = "/" }, response) => {
    const path = decodeURIComponent(target.slice(1));
    const tarball = tarballs.get(path);
    if (tarball !== undefined) {
      const found = packages.find((each) => tarballName(each) === path);
      request(found?.name ?? "").resolve();
      if (found?.stalls === true) {
        response.write(tarball.subarray(0, 10));
      } else {
        response.end(tarball);
      }
      return;
    }
    const versions = packages.filter(({ name }) => name === path);
    response.statusCode = versions.length === 0 ? 404 : 200;
    response.setHeader("content-type", "application/json");
    response.end(JSON.stringify(describe(path, versions)));
  });

  function describe(name: string, found: readonly Package[]): object {
    const latest = found.at(-1)?.version;
    const entries = found.map((each) => {
      const tarball = tarballs.get(tarballName(each)) ?? Buffer.alloc(0);
      const integrity = `sha512-${createHash("sha512").update(tarball).digest("base64")}`;
      const { version, manifest } = each;
      const scripts = manifest?.scripts;
      const dist = { tarball: `${url}/${tarballName(each)}`, integrity };
      return [version, { name, version, ...manifest, ...(scripts && { hasInstallScript: true }), dist }] as const;
    });
    return { name, "dist-tags": { latest }, versions: Object.fromEntries(entries) };
  }

  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const packages = packagesOf(url);
  for (const each of packages) {
    tarballs.set(tarballName(each), await pack(each));
  }
  return {
    url,
    untilRequested: (name) => request(name).promise,
    async [Symbol.asyncDispose]() {
      server.close();
      server.closeAllConnections();
    },
  };
}

function tarballName({ name, version }: Package): string {
  return `${name.replace("/", "-")}-${version}.tgz`;
}

/** The tarball of a package, as npm pack makes it. */
export function pack({ name, version, manifest, files = {}, packedName = name }: Package): Promise<Buffer> {
  return packFiles({ "package.json": JSON.stringify({ name: packedName, version, ...manifest }), ...files });
}

/** A compressed archive of these files in a folder. */
export function packFiles(files: Readonly<Record<string, string>>, name = "package"): Promise<Buffer> {
  return packFolders({ [name]: files });
}

/** A compressed archive of folders with files, in this order. */
export async function packFolders(
  folders: Readonly<Record<string, Readonly<Record<string, string>>>>,
): Promise<Buffer> {
  const work = await mkdtemp(join(tmpdir(), "flowgate-package-"));
  try {
    for (const [name, files] of Object.entries(folders)) {
      await writeFiles(join(work, name), files);
    }
    execFileSync("tar", ["-czf", "package.tgz", ...Object.keys(folders)], { cwd: work });
    return await readFile(join(work, "package.tgz"));
  } finally {
    await rm(work, { recursive: true, force: true });
  }
}
