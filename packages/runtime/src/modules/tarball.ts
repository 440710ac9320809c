import { createReadStream } from "node:fs";
import { Readable } from "node:stream";
import { createGunzip } from "node:zlib";
import { type Fields, isFields } from "@flowgate/base/fields";
import { isModuleName } from "@flowgate/base/module-names";
import { type ArchiveEntry, ArchiveError, readArchive } from "./archive.ts";

/** The fields of a package's package.json. */
export type PackageManifest = Readonly<Record<string, unknown>> & { readonly name: string; readonly version: string };

/** The contents of a package's tarball, as npm reads them. */
export type PackageContent = {
  readonly manifest: PackageManifest;
  /** The package.json of each package that it contains. */
  readonly bundled: readonly Fields[];
};

const maxBundled = 5_000;

/**
 * Reads the package.json of a package, as `npm pack` makes it, from a tarball or the file of one. Undefined: it is none. Nothing is
 * unpacked, and no more is read than is needed.
 */
export async function readPackageManifest(source: Uint8Array | string): Promise<PackageManifest | undefined> {
  try {
    return await readEntries(source, isManifestPath, async (entries) => {
      for await (const { content } of entries) {
        if (content !== undefined) {
          return toManifest(parse(content));
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
    return await readEntries(tarball, isAnyManifestPath, async (entries) => {
      let manifest: PackageManifest | undefined;
      const bundled: Fields[] = [];
      for await (const { path, content } of entries) {
        if (isManifestPath(path)) {
          if (manifest !== undefined || content === undefined) {
            throw new ArchiveError("has more than one package.json");
          }
          manifest = toManifest(parse(content));
          if (manifest === undefined) {
            return undefined;
          }
        } else if (content !== undefined) {
          bundled.push(parseIfJson(content));
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
  wants: (path: string) => boolean,
  read: (entries: AsyncIterable<ArchiveEntry>) => Promise<T>,
): Promise<T> {
  const compressed =
    typeof source === "string" ? createReadStream(source) : Readable.from([source], { objectMode: false });
  const gunzip = createGunzip();
  compressed.on("error", (error) => gunzip.destroy(error));
  try {
    return await read(readArchive(compressed.pipe(gunzip), wants));
  } finally {
    compressed.destroy();
    gunzip.destroy();
  }
}

function isManifestPath(path: string): boolean {
  return path === "package.json";
}

/** Also of the packages that it contains. */
function isAnyManifestPath(path: string): boolean {
  return isManifestPath(path) || /(?:^|\/)node_modules\/(?:@[^/]+\/)?[^/]+\/package\.json$/.test(path);
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
