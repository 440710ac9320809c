import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { readFile } from "node:fs/promises";
import type { Readable } from "node:stream";
import { mediaTypeOf } from "../media-types.ts";
import { type EditorClient, listFiles } from "./client-files.ts";
import { CompressedFiles, type Encoding } from "./compressed-files.ts";

/** A file of the editor. */
export type Asset = {
  readonly type: string;
  /** A validator for all encodings (RFC 9110, section 8.8.3). */
  readonly etag: string;
  /** Its content in this encoding, or without one. */
  read(encoding: Encoding | undefined): Promise<AssetContent>;
};

type AssetContent = {
  /** A stream if it is not compressed: clients may read slowly, and files have megabytes. */
  readonly body: Buffer | Readable;
  readonly bytes: number;
  readonly encoding: Encoding | undefined;
};

/** The files that browsers load, by their paths. */
export class Assets {
  readonly #files: Promise<ReadonlyMap<string, string>>;
  readonly #compressed: CompressedFiles;
  /** The files do not change while the service runs. */
  readonly #hashes = new Map<string, Promise<{ readonly hash: string; readonly bytes: number }>>();

  constructor({ publicDir, version }: EditorClient, cacheDir: string) {
    this.#files = listFiles(publicDir);
    this.#files.catch(() => {});
    this.#compressed = new CompressedFiles({ cacheDir, version });
  }

  /** Undefined: there is none. `path` has no `/` at its beginning. */
  async find(path: string): Promise<Asset | undefined> {
    const file = (await this.#files).get(path);
    if (file === undefined) {
      return undefined;
    }
    const described = this.#hashes.get(file) ?? describe(file);
    this.#hashes.set(file, described);
    const { hash, bytes } = await described;
    return {
      type: mediaTypeOf(path),
      etag: `W/"${hash}"`,
      read: async (encoding) => {
        const used = CompressedFiles.accepts(path, bytes) ? encoding : undefined;
        const compressed = used && (await this.#compressed.read(file, hash, used));
        return compressed === undefined
          ? { body: createReadStream(file), bytes, encoding: undefined }
          : { body: compressed, bytes: compressed.length, encoding: used };
      },
    };
  }
}

async function describe(file: string): Promise<{ readonly hash: string; readonly bytes: number }> {
  const content = await readFile(file);
  return { hash: createHash("sha256").update(content).digest("base64url"), bytes: content.length };
}
