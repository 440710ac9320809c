import { formatPath, type JsonPath } from "@flowgate/gateway/json-path";
import type { FileProblem } from "./failure.ts";
import type { FileValue, FlowFiles } from "./flow-files.ts";
import { splitPath } from "./split-path.ts";

/**
 * Converts an error message that begins with a JSON path, such as `flows[3].wires[0]: must be an array`, to a problem of the file
 * that the value comes from. Paths of other nodes in the message become positions too. Returns undefined for any other message.
 */
export function locateProblem(files: FlowFiles, text: string): FileProblem | undefined {
  const { path, rest } = splitPath(text);
  const found = find(files, path);
  if (found === undefined) {
    return undefined;
  }
  const { value, inner } = found;
  const message = rest.replaceAll(/\bflows\[(\d+)\](?:\.id\b)?/g, (other, index) => {
    const node = files.nodes[Number(index)];
    return node === undefined ? other : describePosition(node);
  });
  // Other fields than nodes have names, which no position shows.
  const shown = path[0] === "flows" ? inner : path;
  return { ...positionOf(value, inner), message: shown.length === 0 ? message : `${formatPath(shown)}: ${message}` };
}

/** Creates the problem of a node. */
export function problemOf(node: FileValue, message: string): FileProblem {
  return { ...positionOf(node, []), message };
}

/** Finds a value, and what of the path leads on from it. */
function find({ nodes, rev, credentials }: FlowFiles, path: JsonPath): Found | undefined {
  const [field, index, ...inner] = path;
  switch (field) {
    case "flows":
      return typeof index === "number" ? toFound(nodes[index], inner) : undefined;
    case "rev":
      return toFound(rev, path.slice(1));
    case "credentials":
      return toFound(credentials, path.slice(1));
    default:
      return undefined;
  }
}

type Found = { readonly value: FileValue; readonly inner: JsonPath };

function toFound(value: FileValue | undefined, inner: JsonPath): Found | undefined {
  return value && { value, inner };
}

function positionOf({ source, path }: FileValue, inner: JsonPath): Omit<FileProblem, "message"> {
  return { file: source.file, ...source.positionOf([...path, ...inner]) };
}

function describePosition(node: FileValue): string {
  const { file, line, column } = positionOf(node, []);
  return `${file}:${line}:${column}`;
}
