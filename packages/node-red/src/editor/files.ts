import { randomUUID } from "node:crypto";
import { createReadStream, existsSync } from "node:fs";
import { mkdir, readFile, readdir, rename, rm, stat, writeFile } from "node:fs/promises";
import { extname, join, relative, sep } from "node:path";
import type { Readable } from "node:stream";
import { setTimeout as delay } from "node:timers/promises";
import { promisify } from "node:util";
import { brotliCompress, constants, gzip } from "node:zlib";

export type Encoding = "br" | "gzip";

type EditorFilesOptions = {
  /** The files that browsers load. */
  readonly publicDir: string;
  /** Contains a folder with compressed files for each version. */
  readonly cacheDir: string;
  readonly version: string;
};

export type EditorFile = {
  readonly path: string;
  readonly bytes: number;
  /** A validator for all encodings (RFC 9110, section 8.8.3). */
  readonly etag: string;
  /** Where its compressed content is kept, without the name of the encoding; undefined: nowhere. */
  readonly kept: string | undefined;
};

type Content = {
  /** A stream: clients may read slowly, and files have megabytes. */
  readonly body: Readable;
  readonly bytes: number;
  readonly encoding: Encoding | undefined;
};

/** Smaller files become hardly smaller. */
const minBytes = 1_024;

const compressible: ReadonlySet<string> = new Set(
  ".css .eot .html .js .json .map .md .otf .svg .ts .ttf .txt .xml".split(" "),
);

/** In one piece, which takes less time than streams, and no more memory: 60 MB for the largest files. */
const compress: Readonly<Record<Encoding, (content: Buffer) => Promise<Buffer>>> = {
  // Of the editor's 29 MB, 6 are left after a second of CPU time. Quality 9 takes four times as long for 3 % less.
  br: (content) =>
    promisify(brotliCompress)(content, {
      params: { [constants.BROTLI_PARAM_QUALITY]: 6, [constants.BROTLI_PARAM_SIZE_HINT]: content.length },
    }),
  gzip: (content) => promisify(gzip)(content, { level: 9 }),
};

/** How long a request waits for its file to be compressed. */
const waitMs = 3_000;

const temporaryEnd = ".tmp";

/**
 * The files of Node-RED's editor that browsers load. Each is compressed once, and the result kept on the disk until the version changes.
 * Disposing skips what is not compressed yet; nothing is written to the disk afterwards.
 */
export class EditorFiles implements AsyncDisposable {
  readonly #publicDir: string;
  readonly #cacheDir: string;
  readonly #version: string;
  /** Only these are served. */
  readonly #paths: Promise<ReadonlySet<string>>;
  readonly #canKeep: Promise<boolean>;
  /** One after another: it takes memory, and the threads that compress also read files for everyone. */
  #queue: Promise<void> = Promise.resolve();
  /** By the paths of the results. */
  readonly #compressions = new Map<string, Promise<void>>();
  #isClosed = false;

  constructor({ publicDir, cacheDir, version }: EditorFilesOptions) {
    this.#publicDir = publicDir;
    this.#cacheDir = join(cacheDir, version);
    this.#version = version;
    this.#paths = listFiles(publicDir);
    this.#paths.catch(() => {});
    this.#canKeep = prepare(cacheDir, version);
  }

  /** Undefined: there is none. `path` has no `/` at its beginning. */
  async find(path: string): Promise<EditorFile | undefined> {
    if (!(await this.#paths).has(path)) {
      return undefined;
    }
    const file = join(this.#publicDir, path);
    const { size, mtimeMs } = await stat(file);
    const tag = `${size}-${Math.trunc(mtimeMs)}`;
    const isKept = size >= minBytes && compressible.has(extname(path).toLowerCase()) && (await this.#canKeep);
    return {
      path: file,
      bytes: size,
      etag: `W/"${this.#version}-${tag}"`,
      kept: isKept ? join(this.#cacheDir, `${encodeURIComponent(path)}-${tag}`) : undefined,
    };
  }

  /** The content of a file in this encoding, if it can be compressed in time. */
  async open({ path, bytes, kept }: EditorFile, encoding: Encoding | undefined): Promise<Content> {
    if (kept !== undefined && encoding !== undefined) {
      const compression = this.#compress(path, kept, encoding);
      await Promise.race([compression, delay(waitMs, undefined, { ref: false })]);
      const compressed = `${kept}.${encoding}`;
      const found = await stat(compressed).catch(() => undefined);
      if (found !== undefined) {
        return { body: createReadStream(compressed), bytes: found.size, encoding };
      }
    }
    return { body: createReadStream(path), bytes, encoding: undefined };
  }

  /** Compresses what is not compressed yet, before someone asks for it. A file that is asked for meanwhile is the next one. */
  async compressAll(): Promise<void> {
    for (const name of await this.#paths) {
      const { path, kept } = (!this.#isClosed && (await this.find(name))) || {};
      if (path !== undefined && kept !== undefined) {
        await this.#compress(path, kept, "br");
      }
    }
  }

  /** Once, also if the result can't be kept. */
  #compress(path: string, kept: string, encoding: Encoding): Promise<void> {
    return this.#compressions.getOrInsertComputed(`${kept}.${encoding}`, (target) => {
      this.#queue = this.#queue.then(() => (this.#isClosed ? undefined : compressTo(target, path, encoding)));
      return this.#queue;
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#isClosed = true;
    await this.#canKeep;
    await this.#queue;
  }
}

/** If the result can't be kept, the file is sent uncompressed until the service starts again. */
async function compressTo(target: string, path: string, encoding: Encoding): Promise<void> {
  const temporary = `${target}.${randomUUID()}${temporaryEnd}`;
  try {
    if (!existsSync(target)) {
      // On the disk before it has its name: browsers would keep an incomplete file for a year.
      await writeFile(temporary, await compress[encoding](await readFile(path)), { mode: 0o600, flush: true });
      await rename(temporary, target);
    }
  } catch {
    await rm(temporary, { force: true }).catch(() => {});
  }
}

/** Removes what was kept for other versions, and what a process that was killed has not finished. False: the disk is full or read-only. */
async function prepare(cacheDir: string, version: string): Promise<boolean> {
  try {
    const dir = join(cacheDir, version);
    await mkdir(dir, { recursive: true, mode: 0o700 });
    const others = (await readdir(cacheDir)).filter((name) => name !== version).map((name) => join(cacheDir, name));
    const unfinished = (await readdir(dir))
      .filter((name) => extname(name) === temporaryEnd)
      .map((name) => join(dir, name));
    await Promise.all([...others, ...unfinished].map((path) => rm(path, { recursive: true, force: true })));
    return true;
  } catch {
    return false;
  }
}

/** All files below a folder, by their paths relative to it, with `/`. */
async function listFiles(dir: string): Promise<ReadonlySet<string>> {
  const entries = await readdir(dir, { withFileTypes: true, recursive: true });
  const files = entries.filter((entry) => entry.isFile());
  return new Set(files.map(({ parentPath, name }) => relative(dir, join(parentPath, name)).split(sep).join("/")));
}

/** The encoding of a response, by the header Accept-Encoding (RFC 9110, section 12.5.3); undefined: none. */
export function chooseEncoding(acceptEncoding = ""): Encoding | undefined {
  return (["br", "gzip"] as const).find((name) =>
    new RegExp(`(?:^|,)\\s*${name}\\s*(?:$|,|;(?!\\s*q=0(?:\\.0*)?\\s*(?:$|,)))`, "i").test(acceptEncoding),
  );
}
