import { createReadStream } from "node:fs";
import { Readable } from "node:stream";
import { createGunzip } from "node:zlib";
import { type Fields, isFields } from "../base/fields.ts";
import { isModuleName } from "../runtime/folders.ts";
import { ArchiveError, type ArchiveEntry, readArchive } from "./archive.ts";

/** What the package.json of a package says. */
export type PackageManifest = Readonly<Record<string, unknown>> & { readonly name: string; readonly version: string };

/** What npm finds in the tarball of a package. */
export type PackageContent = {
  readonly manifest: PackageManifest;
  /** The package.json of each package that it contains. */
  readonly bundled: readonly Fields[];
};

const maxManifestBytes = 1024 * 1024;
const maxBundled = 5_000;

/**
 * Reads the package.json of a package, as `npm pack` makes it, from a tarball or the file of one. Undefined: it is none. Nothing is
 * unpacked, and no more is read than is needed.
 */
export async function readPackageManifest(source: Uint8Array | string): Promise<PackageManifest | undefined> {
  try {
    return await readEntries(source, async (entries) => {
      for await (const entry of entries) {
        if (entry.isFile && entry.paths.every(isManifestPath)) {
          return toManifest(parse(await readManifest(entry)));
        }
      }
      return undefined;
    });
  } catch {
    // It can't be read, is not compressed, is damaged, or is not JSON.
    return undefined;
  }
}

/**
 * Reads the tarball of a package to its end. Undefined: it is none. Throws an ArchiveError if programs could find another package.json in it
 * than this one: the last of several, for example, or one that only some of them find.
 */
export async function readPackage(tarball: Uint8Array): Promise<PackageContent | undefined> {
  try {
    return await readEntries(tarball, async (entries) => {
      let manifest: PackageManifest | undefined;
      const bundled: Fields[] = [];
      for await (const entry of entries) {
        if (entry.paths.some(isManifestPath)) {
          if (manifest !== undefined || !entry.isFile || !entry.paths.every(isManifestPath)) {
            throw new ArchiveError("has more than one package.json");
          }
          manifest = toManifest(parse(await readManifest(entry)));
          if (manifest === undefined) {
            return undefined;
          }
        } else if (entry.isFile && entry.paths.some(isBundledPath)) {
          bundled.push(parseIfJson(await readManifest(entry)));
        }
        if (bundled.length > maxBundled) {
          throw new ArchiveError(`contains more than ${maxBundled} packages`);
        }
      }
      return manifest && { manifest, bundled };
    });
  } catch (error) {
    // The others are of zlib and JSON.parse.
    if (error instanceof ArchiveError) {
      throw error;
    }
    return undefined;
  }
}

async function readEntries<T>(
  source: Uint8Array | string,
  read: (entries: AsyncIterable<ArchiveEntry>) => Promise<T>,
): Promise<T> {
  const compressed =
    typeof source === "string" ? createReadStream(source) : Readable.from([source], { objectMode: false });
  const gunzip = createGunzip();
  compressed.on("error", (error) => gunzip.destroy(error));
  try {
    return await read(readArchive(compressed.pipe(gunzip)));
  } finally {
    compressed.destroy();
    gunzip.destroy();
  }
}

function isManifestPath(path: string): boolean {
  return path === "package.json";
}

function isBundledPath(path: string): boolean {
  return /(?:^|\/)node_modules\/(?:@[^/]+\/)?[^/]+\/package\.json$/.test(path);
}

async function readManifest(entry: ArchiveEntry): Promise<string> {
  if (entry.sizeBytes > maxManifestBytes) {
    throw new ArchiveError(`has a package.json of more than ${maxManifestBytes / 1024 / 1024} MiB`);
  }
  return (await entry.read()).toString("utf8");
}

function parse(text: string): unknown {
  return JSON.parse(text.replace(/^\uFEFF/, ""));
}

/** Packages contain invalid ones, for their tests. */
function parseIfJson(text: string): Fields {
  try {
    return toFields(parse(text));
  } catch {
    return {};
  }
}

function toFields(value: unknown): Fields {
  return isFields(value) ? value : {};
}

function toManifest(value: unknown): PackageManifest | undefined {
  const fields = toFields(value);
  const { name, version } = fields;
  const isValid =
    typeof name === "string" && isModuleName(name) && typeof version === "string" && /^[\w.+-]{1,100}$/.test(version);
  return isValid ? { ...fields, name, version } : undefined;
}
