import { createHash } from "node:crypto";
import { execFileSync } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { writeFiles } from "../runtime/planted-code.ts";

/** A package: the members of its package.json besides the name, and its other files by their paths. */
export type Package = {
  readonly name: string;
  readonly version: string;
  readonly manifest?: { readonly scripts?: object; readonly dependencies?: object };
  readonly files?: Readonly<Record<string, string>>;
};

/** Starts a registry of npm on loopback that has these packages. */
export async function openNpmRegistry(
  packagesOf: (url: string) => readonly Package[],
): Promise<AsyncDisposable & { readonly url: string }> {
  const tarballs = new Map<string, Buffer>();
  const server = createServer((request, response) => {
    const path = decodeURIComponent((request.url ?? "/").slice(1));
    const tarball = tarballs.get(path);
    if (tarball !== undefined) {
      response.end(tarball);
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
    async [Symbol.asyncDispose]() {
      server.close();
      server.closeAllConnections();
    },
  };
}

function tarballName({ name, version }: Package): string {
  return `${name.replace("/", "-")}-${version}.tgz`;
}

async function pack({ name, version, manifest, files = {} }: Package): Promise<Buffer> {
  const folder = await mkdtemp(join(tmpdir(), "flowgate-package-"));
  try {
    await writeFiles(join(folder, "package"), {
      "package.json": JSON.stringify({ name, version, ...manifest }),
      ...files,
    });
    execFileSync("tar", ["-czf", "package.tgz", "package"], { cwd: folder });
    return await readFile(join(folder, "package.tgz"));
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}
