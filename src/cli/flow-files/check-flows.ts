import { createRegistry } from "@bufbuild/protobuf";
import { RequestError, createJsonReaders } from "@flowgate/gateway/json";
import { formatPath } from "@flowgate/gateway/json-path";
import {
  type Credentials,
  type Node,
  NodeSchema,
  type SetFlowsRequest,
  SetFlowsRequestSchema,
} from "../../../gen/flowgate/v1/flows_pb.ts";
import { FlowgateError } from "../../errors.ts";
import { mergeCredentials } from "../../flows/credentials.ts";
import { findViolations, parseFlows } from "../../flows/parse-flows.ts";
import { type FileProblem, FlowFilesFailure } from "./failure.ts";
import type { FlowFiles } from "./flow-files.ts";
import { locateProblem } from "./locate-problem.ts";

/** The fields of a SetFlowsRequest that files contain. */
export type CheckedFlows = {
  /** The credentials in nodes are a part of them. */
  readonly flows: readonly Node[];
  readonly rev: string | undefined;
  readonly credentials: Credentials | undefined;
};

/**
 * Decodes and checks flows as the service does before a deployment, except for encrypted credentials. Throws a FlowFilesFailure
 * with the first problem of each node.
 */
export function checkFlows(files: FlowFiles): CheckedFlows {
  const { flows, rev, credentials } = decode(files);
  const located = flows.map((node, index) => ({ node, path: ["flows", index] }));
  report(
    files,
    Array.from(findViolations(located), ({ path, message }) => `${formatPath(path)}: ${message}`),
  );
  try {
    const parsed = parseFlows(flows);
    mergeCredentials({ ...parsed, topLevel: credentials, current: new Map(), decrypt: () => new Map() });
  } catch (error) {
    if (!(error instanceof FlowgateError)) {
      throw error;
    }
    report(files, [error.message]);
  }
  return { flows, rev, credentials };
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
  };
  const [request] = collect<SetFlowsRequest>(() => readers.message(SetFlowsRequestSchema)(fields, []));
  report(files, errors);
  return { flows, rev: request?.rev, credentials: request?.credentials };
}

/** Throws a FlowFilesFailure if there are errors. Each of them begins with a JSON path. */
function report(files: FlowFiles, errors: readonly string[]): void {
  if (errors.length > 0) {
    throw new FlowFilesFailure(errors.map((error) => locate(files, error)));
  }
}

function locate(files: FlowFiles, error: string): FileProblem {
  const problem = locateProblem(files, error);
  if (problem === undefined) {
    throw new Error(`no value of the files is at the path of this error: ${error}`);
  }
  return problem;
}
