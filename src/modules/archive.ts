import { posix } from "node:path";

/** A file, folder or link in an archive. */
export type ArchiveEntry = {
  /** Where readers put it, without the first folder, in lower case: all that its header and its extensions name. */
  readonly paths: readonly string[];
  readonly isFile: boolean;
  readonly sizeBytes: number;
  /** The content of a file. Must be read before the next entry, or not at all. */
  read(): Promise<Buffer>;
};

/** An archive is damaged, or readers of the format could find other files in it than this one. */
export class ArchiveError extends Error {
  constructor(problem: string) {
    super(problem);
    this.name = "ArchiveError";
  }
}

const blockBytes = 512;
const maxExtensionBytes = 1024 * 1024;
/** More than any package. */
const maxUnpackedBytes = 512 * 1024 * 1024;

/**
 * Reads an archive in the format ustar, its older form, or with the extensions pax and GNU for long names. Throws an ArchiveError where
 * readers of these formats differ, so that all of them find the same entries.
 */
export async function* readArchive(source: AsyncIterable<Buffer>): AsyncGenerator<ArchiveEntry> {
  const reader = new BlockReader(source);
  let extension = noExtension;
  for (let block = await reader.next(); block !== undefined; block = await reader.next()) {
    if (isZero(block)) {
      await assertZero(reader);
      break;
    }
    const header = parseHeader(block);
    const { type, sizeBytes } = header;
    if (type === "g") {
      parsePax(await reader.read(sizeBytes, maxExtensionBytes), ["path", "linkpath", "size"]);
    } else if (type === "x") {
      extension = extend(extension, parsePax(await reader.read(sizeBytes, maxExtensionBytes), []));
    } else if (type === "L" || type === "K") {
      const name = readText(await reader.read(sizeBytes, maxExtensionBytes));
      extension = type === "L" ? extend(extension, { paths: [name], sizes: [] }) : extension;
    } else {
      const end = reader.positionBytes + paddedBytes(sizeBytes);
      yield {
        paths: pathsOf(header, extension).map(normalizePath),
        isFile: type === "0",
        sizeBytes,
        read: () => reader.read(sizeBytes, sizeBytes),
      };
      await reader.skip(end - reader.positionBytes);
      extension = noExtension;
    }
  }
  if (extension !== noExtension) {
    throw new ArchiveError("ends before a file");
  }
}

function pathsOf({ type, path, sizeBytes }: Header, { paths, sizes }: Extension): readonly string[] {
  if (sizes.some((size) => size !== sizeBytes)) {
    throw new ArchiveError(`has two sizes for ${show(path)}`);
  }
  for (const other of paths) {
    assertPath(other);
    if (type === "0" && other.endsWith("/")) {
      throw new ArchiveError(`has an entry ${show(other)} that is both a file and a folder`);
    }
  }
  return [path, ...paths];
}

function assertPath(path: string): void {
  if (path === "" || path.split("/").includes("..")) {
    throw new ArchiveError(`has an entry ${show(path)}, which is no path in a package`);
  }
}

function show(path: string): string {
  return JSON.stringify(path.slice(0, 100));
}

/** What precedes the header of an entry, and replaces what is in it. */
type Extension = { readonly paths: readonly string[]; readonly sizes: readonly number[] };

const noExtension: Extension = { paths: [], sizes: [] };

function extend(one: Extension, other: Extension): Extension {
  return { paths: [...one.paths, ...other.paths], sizes: [...one.sizes, ...other.sizes] };
}

type Header = { readonly type: string; readonly sizeBytes: number; readonly path: string };

/** Entries without a content, whatever their header says. */
const emptyTypes: ReadonlySet<string> = new Set(["1", "2", "5"]);
const knownTypes: ReadonlySet<string> = new Set([...emptyTypes, "0", "x", "g", "L", "K"]);

function parseHeader(header: Buffer): Header {
  if (parseOctal(header.subarray(148, 156)) !== checksum(header)) {
    throw new ArchiveError("has a header whose checksum is wrong");
  }
  const name = readText(header.subarray(0, 100));
  assertPath(name);
  const path = prefixOf(header) + name;
  assertPath(path);
  const code = readText(header.subarray(156, 157)) || "0";
  // Older programs mark a folder by its name only.
  const type = code === "0" && name.endsWith("/") ? "5" : code;
  if (!knownTypes.has(type)) {
    throw new ArchiveError(`has an entry ${show(path)} that is neither a file, a folder nor a link`);
  }
  const isLink = type === "1" || type === "2";
  if (isLink !== (header[157] !== 0)) {
    throw new ArchiveError(`has an entry ${show(path)} that is both a link and none`);
  }
  const sizeBytes = parseOctal(header.subarray(124, 136));
  if (sizeBytes === undefined || (sizeBytes > 0 && emptyTypes.has(type))) {
    throw new ArchiveError(`has a wrong size for ${show(path)}`);
  }
  return { type, sizeBytes, path };
}

/** With a slash at the end. */
function prefixOf(header: Buffer): string {
  if (header.toString("latin1", 257, 265) !== "ustar\u000000") {
    return "";
  }
  // Some archives have times in the last bytes.
  const isLong = header[475] !== 0;
  const prefix = readText(header.subarray(345, isLong ? 500 : 475));
  return isLong || prefix !== "" ? `${prefix}/` : "";
}

/** Undefined: it is no number. */
function parseOctal(field: Buffer): number | undefined {
  const [, digits] = /^ *([0-7]+)[ \0]*$/.exec(field.toString("latin1")) ?? [];
  return digits === undefined ? undefined : Number.parseInt(digits, 8);
}

/** The sum of all bytes, as if those of the checksum itself were spaces. */
function checksum(header: Buffer): number {
  const sum = header.reduce((total, byte) => total + byte, 0);
  return header.subarray(148, 156).reduce((total, byte) => total - byte + 0x20, sum);
}

function readText(field: Buffer): string {
  const end = field.indexOf(0);
  return field.toString("utf8", 0, end === -1 ? field.length : end);
}

/** Other keys could replace the type of an entry, and do so for some readers only. */
const harmlessKeys =
  /^(?:atime|ctime|mtime|uid|gid|uname|gname|mode|charset|hdrcharset|comment|linkpath|[A-Z][A-Za-z]*\..+)$/;

/** Parses `<length> <key>=<value>\n`, repeated. */
function parsePax(content: Buffer, refused: readonly string[]): Extension {
  const paths: string[] = [];
  const sizes: number[] = [];
  for (let at = 0; at < content.length && content[at] !== 0;) {
    const [, digits = "", key = ""] = /^(\d{1,7}) ([^=\n\0]+)=/.exec(content.toString("utf8", at, at + 300)) ?? [];
    const record = content.subarray(at, at + Number(digits));
    const value = record.toString("utf8", Buffer.byteLength(`${digits} ${key}=`), record.length - 1);
    const isWhole = record.length === Number(digits) && record.at(-1) === 0x0a && !/[\n\0]/.test(value);
    if (digits === "" || !isWhole || refused.includes(key)) {
      throw new ArchiveError("has an extended header that readers would not understand in the same way");
    }
    if (key === "path") {
      paths.push(value);
    } else if (key === "size") {
      sizes.push(Number(value));
    } else if (!harmlessKeys.test(key)) {
      throw new ArchiveError(`has an extended header with the unknown key ${JSON.stringify(key.slice(0, 100))}`);
    }
    at += record.length;
  }
  return { paths, sizes };
}

/** Without the first folder. Some file systems ignore the case of letters. */
function normalizePath(path: string): string {
  const [, ...rest] = path.split("/");
  return posix
    .normalize(rest.join("/"))
    .replaceAll(/^\/+|\/+$/g, "")
    .toLowerCase();
}

function isZero(block: Buffer): boolean {
  return block.every((byte) => byte === 0);
}

/** Throws if something follows the end of an archive: some readers go on after one block of zeros. */
async function assertZero(reader: BlockReader): Promise<void> {
  for (let block = await reader.next(); block !== undefined; block = await reader.next()) {
    if (!isZero(block)) {
      throw new ArchiveError("has files after its end");
    }
  }
}

/** Reads a stream in blocks. */
class BlockReader {
  readonly #chunks: AsyncIterator<Buffer>;
  #rest: Buffer = Buffer.alloc(0);
  #totalBytes = 0;
  #positionBytes = 0;

  constructor(source: AsyncIterable<Buffer>) {
    this.#chunks = source[Symbol.asyncIterator]();
  }

  /** How much of the stream was read or skipped. */
  get positionBytes(): number {
    return this.#positionBytes;
  }

  /** Undefined at the end of the stream. */
  async next(): Promise<Buffer | undefined> {
    if (this.#rest.length === 0 && !(await this.#fill())) {
      return undefined;
    }
    return this.#take(blockBytes);
  }

  /** Reads this number of bytes, and skips what is left of the last block. */
  async read(length: number, maxBytes: number): Promise<Buffer> {
    if (length > maxBytes) {
      throw new ArchiveError("has an extended header that is too long");
    }
    return (await this.#take(paddedBytes(length))).subarray(0, length);
  }

  /** `length` is a whole number of blocks. */
  async skip(length: number): Promise<void> {
    let left = length;
    while (left > this.#rest.length) {
      left -= this.#rest.length;
      this.#positionBytes += this.#rest.length;
      if (!(await this.#fill())) {
        throw new ArchiveError("ends too early");
      }
    }
    await this.#take(left);
  }

  async #take(length: number): Promise<Buffer> {
    const chunks = [this.#rest];
    let bytes = this.#rest.length;
    while (bytes < length) {
      if (!(await this.#fill())) {
        throw new ArchiveError("ends too early");
      }
      chunks.push(this.#rest);
      bytes += this.#rest.length;
    }
    const joined = chunks.length === 1 ? this.#rest : Buffer.concat(chunks, bytes);
    this.#rest = joined.subarray(length);
    this.#positionBytes += length;
    return joined.subarray(0, length);
  }

  /** Replaces what is left by the next chunk. Returns false at the end of the stream. */
  async #fill(): Promise<boolean> {
    const { done, value } = await this.#chunks.next();
    this.#rest = done === true ? Buffer.alloc(0) : value;
    this.#totalBytes += this.#rest.length;
    if (this.#totalBytes > maxUnpackedBytes) {
      throw new ArchiveError(`takes more than ${maxUnpackedBytes / 1024 / 1024} MiB unpacked`);
    }
    return done !== true;
  }
}

function paddedBytes(length: number): number {
  return Math.ceil(length / blockBytes) * blockBytes;
}
