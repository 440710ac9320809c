import { createReadStream } from "node:fs";
import { stat } from "node:fs/promises";
import type { JsonPath } from "@flowgate/gateway/json-path";
import { hasCode } from "@flowgate/base/error-code";
import { CliFailure } from "../failure.ts";
import { failureAt, type FileProblem, FlowFilesFailure, type FlowSource, parseSource } from "./source.ts";

/** A value of some files, parsed but not validated, and where it is. */
export type FileValue = { readonly value: unknown; readonly source: FlowSource; readonly path: JsonPath };

/** The content of one or several files: the fields of a SetFlowsRequest, not validated. */
export type FlowFiles = {
  /** In the order of the configuration. */
  readonly nodes: readonly FileValue[];
  readonly rev: FileValue | undefined;
  readonly credentials: FileValue | undefined;
  readonly modules: FileValue | undefined;
};

export async function readFlowFile(path: string): Promise<FlowFiles> {
  return readContent(parseSource(path, await readBytes(path)));
}

/** Applies a function to all items. Throws one FlowFilesFailure with the problems of all calls. */
export async function collectProblems<T, R>(items: readonly T[], read: (item: T) => Promise<R>): Promise<R[]> {
  const results: R[] = [];
  const problems: FileProblem[] = [];
  for (const item of items) {
    try {
      results.push(await read(item));
    } catch (error) {
      if (!(error instanceof FlowFilesFailure)) {
        throw error;
      }
      problems.push(...error.problems);
    }
  }
  if (problems.length > 0) {
    throw new FlowFilesFailure(problems);
  }
  return results;
}

/** More than the flows of any server, and than a server accepts. Bounds the memory that a wrong file takes. */
const maxFileBytes = 256 * 1024 * 1024;

/** Reads a file or pipe. Throws a CliFailure if that is not possible. */
export async function readBytes(path: string): Promise<Buffer> {
  try {
    return await readBoundedFile(path);
  } catch (error) {
    throw explainReadError(error, path);
  }
}

/** As `readBytes`, with the errors of the system. */
async function readBoundedFile(path: string): Promise<Buffer> {
  const stats = await stat(path);
  // Devices such as /dev/zero have no end.
  if (!stats.isFile() && !stats.isFIFO() && !stats.isDirectory()) {
    throw new CliFailure(`${path}: is a device or socket: specify a file`);
  }
  return readBounded(path, createReadStream(path));
}

/** As `readBoundedFile`; undefined if there is no such file. */
export async function readIfExists(path: string): Promise<Buffer | undefined> {
  try {
    return await readBoundedFile(path);
  } catch (error) {
    if (hasCode(error, "ENOENT")) {
      return undefined;
    }
    throw error;
  }
}

/** Reads a stream to its end. Throws a CliFailure if it is larger than any flows. */
export async function readBounded(name: string, stream: AsyncIterable<Uint8Array>): Promise<Buffer> {
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  for await (const chunk of stream) {
    bytes += chunk.length;
    if (bytes > maxFileBytes) {
      throw new CliFailure(`${name}: is larger than ${maxFileBytes / 1024 / 1024} MiB: specify a file with flows`);
    }
    chunks.push(chunk);
  }
  return Buffer.concat(chunks, bytes);
}

export function explainReadError(error: unknown, path: string): unknown {
  if (!(error instanceof Error && "code" in error)) {
    return error;
  }
  switch (error.code) {
    case "ENOENT":
      return new CliFailure(`${path}: there is no such file or folder: correct the path`);
    case "EACCES":
      return new CliFailure(`${path}: this user may not read it: change its permissions`);
    case "ENOTDIR":
      return new CliFailure(`${path}: a part of this path is a file: specify a folder`);
    case "EISDIR":
      return new CliFailure(`${path}: is a folder, but a file is required: specify a file, or rename the folder`);
    default:
      return new CliFailure(`${path}: can't be read (${String(error.code)})`);
  }
}

const shapes = "an array of nodes, as Node-RED exports it, or an object with flows, as GET /flows returns it";

/** Reads an array of nodes, or `{flows, rev, credentials, modules}`. Throws a FlowFilesFailure for any other value. */
export function readContent(source: FlowSource): FlowFiles {
  const { value } = source;
  if (Array.isArray(value)) {
    return { nodes: elementsOf(source, value, []), rev: undefined, credentials: undefined, modules: undefined };
  }
  if (typeof value !== "object" || value === null || !("flows" in value)) {
    throw failureAt(source, [], `must be ${shapes}`);
  }
  const { flows, rev, credentials, modules, ...others } = value as Readonly<Record<string, unknown>>;
  const [unknown] = Object.keys(others);
  if (unknown !== undefined) {
    throw failureAt(source, [unknown], `${unknown}: unknown key: only flows, rev, credentials and modules are allowed`);
  }
  if (!Array.isArray(flows)) {
    throw failureAt(source, ["flows"], "flows: must be an array of nodes");
  }
  const field = (name: string, found: unknown): FileValue | undefined =>
    found === undefined ? undefined : { value: found, source, path: [name] };
  return {
    nodes: elementsOf(source, flows, ["flows"]),
    rev: field("rev", rev),
    credentials: field("credentials", credentials),
    modules: field("modules", modules),
  };
}

function elementsOf(source: FlowSource, elements: readonly unknown[], path: FileValue["path"]): FileValue[] {
  return elements.map((value, index) => ({ value, source, path: [...path, index] }));
}
