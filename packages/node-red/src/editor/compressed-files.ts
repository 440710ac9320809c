import { randomUUID } from "node:crypto";
import { mkdir, readFile, readdir, rename, rm, stat, writeFile } from "node:fs/promises";
import { extname, join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { promisify } from "node:util";
import { brotliCompress, constants, gzip } from "node:zlib";

export type Encoding = "br" | "gzip";

type CompressedFilesOptions = {
  /** Contains a folder for each version. */
  readonly cacheDir: string;
  readonly version: string;
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
      params: {
        [constants.BROTLI_PARAM_QUALITY]: 6,
        [constants.BROTLI_PARAM_SIZE_HINT]: content.length,
      },
    }),
  gzip: (content) => promisify(gzip)(content, { level: 9 }),
};

/** A compressed file on the disk. */
export type CompressedFile = { readonly path: string; readonly bytes: number };

/** How long a request waits for its file to be compressed. */
const waitMs = 3_000;

/** Compresses each file once, and keeps the result on the disk until the version changes. */
export class CompressedFiles {
  readonly #dir: string;
  /** Whether results can be kept. */
  readonly #ready: Promise<boolean>;
  /** One after another: it takes memory, and the threads that compress also read files for everyone. */
  #queue: Promise<void> = Promise.resolve();
  /** Those that are being compressed, or wait for that. */
  readonly #pending = new Map<string, Promise<void>>();

  constructor({ cacheDir, version }: CompressedFilesOptions) {
    this.#dir = join(cacheDir, version);
    this.#ready = prepare(cacheDir, version);
  }

  /** Whether a file is worth compressing. */
  static accepts(path: string, bytes: number): boolean {
    return bytes >= minBytes && compressible.has(extname(path).toLowerCase());
  }

  /** Compresses a file unless it is already. `hash` identifies its content. */
  async add(path: string, hash: string, encoding: Encoding): Promise<void> {
    const cached = this.#pathOf(hash, encoding);
    if ((await this.#ready) && (await findFile(cached)) === undefined) {
      await this.#compress(cached, path, encoding);
    }
  }

  /** Undefined: it can't be kept, or takes too long to compress. */
  async find(path: string, hash: string, encoding: Encoding): Promise<CompressedFile | undefined> {
    const cached = this.#pathOf(hash, encoding);
    const found = await findFile(cached);
    if (found !== undefined) {
      return found;
    }
    await Promise.race([this.add(path, hash, encoding), delay(waitMs, undefined, { ref: false })]);
    return findFile(cached);
  }

  #pathOf(hash: string, encoding: Encoding): string {
    return join(this.#dir, `${hash}.${encoding}`);
  }

  /** Once, also if it can't be kept. */
  #compress(cached: string, path: string, encoding: Encoding): Promise<void> {
    return this.#pending.getOrInsertComputed(cached, () => {
      this.#queue = this.#queue.then(() => compressTo(cached, path, encoding));
      return this.#queue;
    });
  }
}

async function findFile(path: string): Promise<CompressedFile | undefined> {
  const found = await stat(path).catch(() => undefined);
  return found && { path, bytes: found.size };
}

const temporaryEnd = ".tmp";

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

/** If it can't be kept, it is sent uncompressed until the service starts again. */
async function compressTo(cached: string, path: string, encoding: Encoding): Promise<void> {
  const temporary = `${cached}.${randomUUID()}${temporaryEnd}`;
  try {
    // On the disk before it has its name: browsers would keep an incomplete file for a year.
    await writeFile(temporary, await compress[encoding](await readFile(path)), { mode: 0o600, flush: true });
    await rename(temporary, cached);
  } catch {
    await rm(temporary, { force: true }).catch(() => {});
  }
}

/** The encoding of a response, by the header Accept-Encoding (RFC 9110, section 12.5.3); undefined: none. */
export function chooseEncoding(acceptEncoding: string | undefined): Encoding | undefined {
  const accepted = new Set(
    (acceptEncoding ?? "")
      .toLowerCase()
      .split(",")
      .map((part) => part.trim().split(/\s*;\s*/))
      .filter(([, weight]) => weight === undefined || !/^q=0(?:\.0*)?$/.test(weight))
      .map(([name = ""]) => name),
  );
  return (["br", "gzip"] as const).find((encoding) => accepted.has(encoding));
}
