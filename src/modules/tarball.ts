import { createReadStream } from "node:fs";
import { Readable } from "node:stream";
import { createGunzip } from "node:zlib";
import { isModuleName } from "../runtime/folders.ts";

/** What the package.json of a package says. */
export type PackageManifest = Readonly<Record<string, unknown>> & { readonly name: string; readonly version: string };

const blockBytes = 512;
const maxManifestBytes = 1024 * 1024;
/** More than any package. Beyond it, the rest of a tarball is not read. */
const maxUnpackedBytes = 512 * 1024 * 1024;

/**
 * Reads the package.json of a package, as `npm pack` makes it, from a tarball or the file of one. Undefined: it is none. Nothing is
 * unpacked, and no more is read than is needed.
 */
export async function readPackageManifest(source: Uint8Array | string): Promise<PackageManifest | undefined> {
  const compressed =
    typeof source === "string" ? createReadStream(source) : Readable.from([source], { objectMode: false });
  const gunzip = createGunzip();
  compressed.on("error", (error) => gunzip.destroy(error));
  try {
    const content = await findManifest(compressed.pipe(gunzip));
    return content === undefined ? undefined : toManifest(JSON.parse(content.toString("utf8")));
  } catch {
    // It is not compressed, is damaged, or is not JSON.
    return undefined;
  } finally {
    compressed.destroy();
    gunzip.destroy();
  }
}

function toManifest(value: unknown): PackageManifest | undefined {
  const { name, version } = Object(value) as { readonly name?: unknown; readonly version?: unknown };
  const isValid =
    typeof name === "string" && isModuleName(name) && typeof version === "string" && /^[\w.+-]{1,100}$/.test(version);
  return isValid ? (value as PackageManifest) : undefined;
}

/** The content of the first `package.json` in the first folder of an archive in the format ustar, or its older or newer forms. */
async function findManifest(archive: AsyncIterable<Buffer>): Promise<Buffer | undefined> {
  const reader = new BlockReader(archive);
  for (;;) {
    const header = await reader.read(blockBytes);
    if (header === undefined || header.every((byte) => byte === 0)) {
      return undefined;
    }
    const size = Number.parseInt(header.toString("latin1", 124, 136), 8);
    if (!Number.isSafeInteger(size) || size < 0) {
      return undefined;
    }
    const type = String.fromCharCode(header[156] ?? 0);
    const isManifest = (type === "0" || type === "\0") && /^[^/]+\/package\.json$/.test(readText(header, 0, 100));
    if (isManifest) {
      return size > maxManifestBytes ? undefined : await reader.read(size);
    }
    await reader.skip(Math.ceil(size / blockBytes) * blockBytes);
  }
}

function readText(header: Buffer, start: number, length: number): string {
  const end = header.indexOf(0, start);
  return header.toString("utf8", start, end === -1 || end > start + length ? start + length : end);
}

/** Reads a stream in pieces of given lengths. */
class BlockReader {
  readonly #chunks: AsyncIterator<Buffer>;
  #rest: Buffer = Buffer.alloc(0);
  #totalBytes = 0;

  constructor(source: AsyncIterable<Buffer>) {
    this.#chunks = source[Symbol.asyncIterator]();
  }

  /** Undefined: the stream has ended before, or is too long. */
  async read(length: number): Promise<Buffer | undefined> {
    while (this.#rest.length < length) {
      const chunk = await this.#next();
      if (chunk === undefined) {
        return undefined;
      }
      this.#rest = Buffer.concat([this.#rest, chunk]);
    }
    const piece = this.#rest.subarray(0, length);
    this.#rest = this.#rest.subarray(length);
    return piece;
  }

  async skip(length: number): Promise<void> {
    let left = length;
    while (left > this.#rest.length) {
      left -= this.#rest.length;
      this.#rest = (await this.#next()) ?? Buffer.alloc(0);
      if (this.#rest.length === 0) {
        return;
      }
    }
    this.#rest = this.#rest.subarray(left);
  }

  async #next(): Promise<Buffer | undefined> {
    const { done, value } = await this.#chunks.next();
    this.#totalBytes += done === true ? 0 : value.length;
    return done === true || this.#totalBytes > maxUnpackedBytes ? undefined : value;
  }
}
