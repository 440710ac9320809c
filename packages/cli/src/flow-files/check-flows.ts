import { createRegistry } from "@bufbuild/protobuf";
import { createJsonReaders, RequestError } from "@flowgate/gateway/json";
import { formatPath, type JsonPath, splitPath } from "@flowgate/gateway/json-path";
import {
  type Credentials,
  type FlowModule,
  type Node,
  NodeSchema,
  type SetFlowsRequest,
  SetFlowsRequestSchema,
} from "@flowgate/client";
import { FlowgateError } from "@flowgate/flows/errors";
import { mergeCredentials, findTypesOf, findViolations, parseFlows } from "@flowgate/flows";
import type { FileValue, FlowFiles } from "./read-file.ts";
import { type FileProblem, FlowFilesFailure, problemAt } from "./source.ts";

/** The fields of a SetFlowsRequest that files contain. */
type CheckedFlows = {
  /** The credentials in nodes are a part of them. */
  readonly flows: readonly Node[];
  readonly rev: string | undefined;
  readonly credentials: Credentials | undefined;
  readonly modules: readonly FlowModule[];
};

/**
 * Decodes and checks flows as the service does before a deployment, except for encrypted credentials. Throws a FlowFilesFailure
 * with the first problem of each node.
 */
export function checkFlows(files: FlowFiles): CheckedFlows {
  const { flows, rev, credentials, modules } = decode(files);
  const located = flows.map((node, index) => ({ node, path: ["flows", index] }));
  report(
    files,
    Array.from(findViolations(located), ({ path, message }) => `${formatPath(path)}: ${message}`),
  );
  try {
    const parsed = parseFlows(flows);
    const findTypes = (ids: ReadonlySet<string>) => findTypesOf(parsed.flows, ids);
    mergeCredentials({ ...parsed, findTypes, topLevel: credentials, current: new Map(), decrypt: () => new Map() });
  } catch (error) {
    if (!(error instanceof FlowgateError)) {
      throw error;
    }
    report(files, [error.message]);
  }
  return { flows, rev, credentials, modules };
}

function decode(files: FlowFiles): Pick<SetFlowsRequest, "flows"> & CheckedFlows {
  const readers = createJsonReaders({ ignoreUnknown: false, registry: createRegistry() });
  const errors: string[] = [];
  const collect = <T>(read: () => unknown): T[] => {
    try {
      return [read() as T];
    } catch (error) {
      if (!(error instanceof RequestError)) {
        throw error;
      }
      errors.push(error.message);
      return [];
    }
  };
  const readNode = readers.message(NodeSchema);
  const flows = files.nodes.flatMap(({ value }, index) => collect<Node>(() => readNode(value, ["flows", index])));
  const fields = {
    flows: [],
    ...(files.rev && { rev: files.rev.value }),
    ...(files.credentials && { credentials: files.credentials.value }),
    ...(files.modules && { modules: files.modules.value }),
  };
  const [request] = collect<SetFlowsRequest>(() => readers.message(SetFlowsRequestSchema)(fields, []));
  report(files, errors);
  return { flows, rev: request?.rev, credentials: request?.credentials, modules: request?.modules ?? [] };
}

/** Throws a FlowFilesFailure if there are errors. Each of them begins with a JSON path. */
function report(files: FlowFiles, errors: readonly string[]): void {
  if (errors.length > 0) {
    throw new FlowFilesFailure(
      errors.map((error) => {
        const problem = locateProblem(files, error);
        if (problem === undefined) {
          throw new Error(`no value of the files is at the path of this error: ${error}`);
        }
        return problem;
      }),
    );
  }
}

/**
 * Converts an error message that begins with a JSON path, such as `flows[3].wires[0]: must be an array`, to a problem of the file
 * that the value comes from. Paths of other nodes in the message become positions too. Returns undefined for any other message.
 */
export function locateProblem(files: FlowFiles, text: string): FileProblem | undefined {
  const { path, rest } = splitPath(text);
  const [field, index] = path;
  const isNode = field === "flows" && typeof index === "number";
  const isField = field === "rev" || field === "credentials" || field === "modules";
  const value = isNode ? files.nodes[index] : isField ? files[field] : undefined;
  if (value === undefined) {
    return undefined;
  }
  const inner = path.slice(isNode ? 2 : 1);
  const message = rest.replaceAll(/\bflows\[(\d+)\](?:\.id\b)?/g, (other, index) => {
    const node = files.nodes[Number(index)];
    return node === undefined ? other : formatPosition(problemOf(node, ""));
  });
  // Other fields than nodes have names, which no position shows.
  const shown = isNode ? inner : path;
  return problemOf(value, shown.length === 0 ? message : `${formatPath(shown)}: ${message}`, inner);
}

/** Creates the problem of a node, or of a value in it. */
export function problemOf({ source, path }: FileValue, message: string, inner: JsonPath = []): FileProblem {
  return problemAt(source, [...path, ...inner], message);
}

function formatPosition({ file, line, column }: FileProblem): string {
  return `${file}:${line}:${column}`;
}
