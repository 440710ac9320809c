import type { FileValue, FlowFiles } from "./flow-files.ts";
import { FlowFilesFailure } from "./failure.ts";
import type { FlowSource } from "./source.ts";

const shapes = "an array of nodes, as Node-RED exports it, or an object with flows, as GET /flows returns it";

/** Reads an array of nodes, or `{flows, rev, credentials}`. Throws a FlowFilesFailure for any other value. */
export function readContent(source: FlowSource): FlowFiles {
  const { value } = source;
  if (Array.isArray(value)) {
    return { nodes: elementsOf(source, value, []), rev: undefined, credentials: undefined };
  }
  if (typeof value !== "object" || value === null || !("flows" in value)) {
    throw failure(source, [], `must be ${shapes}`);
  }
  const { flows, rev, credentials, ...others } = value as Readonly<Record<string, unknown>>;
  const [unknown] = Object.keys(others);
  if (unknown !== undefined) {
    throw failure(source, [unknown], `${unknown}: unknown key: only flows, rev and credentials are allowed`);
  }
  if (!Array.isArray(flows)) {
    throw failure(source, ["flows"], "flows: must be an array of nodes");
  }
  return {
    nodes: elementsOf(source, flows, ["flows"]),
    rev: rev === undefined ? undefined : { value: rev, source, path: ["rev"] },
    credentials: credentials === undefined ? undefined : { value: credentials, source, path: ["credentials"] },
  };
}

function elementsOf(source: FlowSource, elements: readonly unknown[], path: FileValue["path"]): FileValue[] {
  return elements.map((value, index) => ({ value, source, path: [...path, index] }));
}

function failure(source: FlowSource, path: FileValue["path"], message: string): FlowFilesFailure {
  return new FlowFilesFailure([{ file: source.file, ...source.positionOf(path), message }]);
}
