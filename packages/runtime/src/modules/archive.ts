import { posix } from "node:path";
import type { Header } from "tar/header";
import type { ReadEntry } from "tar/read-entry";

/** A file, folder or link in an archive. */
export type ArchiveEntry = {
  /** Without the first folder. In lower case, since some file systems ignore the case of letters. */
  readonly path: string;
  /** Absent: the entry is no file, or its content was not wanted. */
  readonly content?: string;
};

/** An archive is damaged, or programs could find other files in it than this one. */
export class ArchiveError extends Error {
  constructor(problem: string) {
    super(problem);
    this.name = "ArchiveError";
  }
}

/** More than any package. */
const maxUnpackedBytes = 512 * 1024 * 1024;
const maxContentBytes = 1024 * 1024;
const fileTypes: ReadonlySet<string> = new Set(["File", "OldFile"]);
const otherTypes: ReadonlySet<string> = new Set(["Directory", "Link", "SymbolicLink"]);

/**
 * Reads an archive, which is not compressed, with the parser of npm, so that npm finds the same entries. Throws an ArchiveError where this
 * parser only warns. Yields an entry when it has been read whole, with the content of the files whose path `wants` accepts.
 */
export async function* readArchive(
  source: AsyncIterable<Buffer>,
  wants: (path: string) => boolean,
): AsyncGenerator<ArchiveEntry> {
  // Loaded when it is first used.
  const { Parser } = await import("tar/parse");
  const entries: ArchiveEntry[] = [];
  let hasEnded = false;
  const parser = new Parser({
    zstd: false,
    // Refuses archives that are compressed twice, in which npm would find other entries.
    maxDecompressionRatio: 0,
    onwarn(_code, message, data) {
      throw new ArchiveError(explain(message, data["header"] as Header | undefined));
    },
    onReadEntry(entry) {
      if (hasEnded) {
        throw new ArchiveError("has files after its end");
      }
      const { isFile, path } = checkEntry(entry);
      const chunks: Buffer[] = [];
      if (isFile && wants(path)) {
        if (entry.size > maxContentBytes) {
          throw new ArchiveError(`has a package.json of more than ${maxContentBytes / 1024 / 1024} MiB`);
        }
        entry.on("data", (chunk) => chunks.push(chunk));
        entry.on("end", () => entries.push({ path, content: Buffer.concat(chunks).toString("utf8") }));
      } else {
        entry.on("end", () => entries.push({ path }));
      }
      entry.resume();
    },
  });
  parser.on("ignoredEntry", ({ path }: ReadEntry) => {
    throw new ArchiveError(unsupported(path));
  });
  // An archive ends with two blocks of zeros. npm reads what follows a single one.
  parser.on("nullBlock", () => (hasEnded = true));

  let bytes = 0;
  for await (const chunk of source) {
    bytes += chunk.length;
    if (bytes > maxUnpackedBytes) {
      throw new ArchiveError(`takes more than ${maxUnpackedBytes / 1024 / 1024} MiB unpacked`);
    }
    parser.write(chunk);
    yield* entries.splice(0);
  }
  parser.end();
  yield* entries.splice(0);
}

function checkEntry({ path, type }: ReadEntry): { readonly isFile: boolean; readonly path: string } {
  const isFile = fileTypes.has(type);
  if (!isFile && !otherTypes.has(type)) {
    throw new ArchiveError(unsupported(path));
  }
  if (path.split("/").includes("..")) {
    throw new ArchiveError(`has an entry ${show(path)}, which is no path in a package`);
  }
  return { isFile, path: normalizePath(path) };
}

/** Describes a problem of an archive by the warning of its parser. */
function explain(warning: string, header: Header | undefined): string {
  switch (warning) {
    case "checksum failure":
      return "has a header whose checksum is wrong";
    case "linkpath forbidden":
      return `has an entry ${show(header?.path ?? "")} that is both a link and none`;
    default:
      return `is no valid archive (${warning})`;
  }
}

function unsupported(path: string): string {
  return `has an entry ${show(path)} that is neither a file, a folder nor a link`;
}

function show(path: string): string {
  return JSON.stringify(path.slice(0, 100));
}

function normalizePath(path: string): string {
  const [, ...rest] = path.split("/");
  return posix
    .normalize(rest.join("/"))
    .replaceAll(/^\/+|\/+$/g, "")
    .toLowerCase();
}
