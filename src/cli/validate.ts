import { findMissingTypes } from "../flows/plan/requirements.ts";
import { findWarnings } from "../flows/plan/warnings.ts";
import { parseFlows } from "../flows/parse-flows.ts";
import { checkFlows } from "./flow-files/check-flows.ts";
import { type FileProblem, FlowFilesFailure } from "./flow-files/failure.ts";
import type { FlowFiles } from "./flow-files/flow-files.ts";
import { problemOf } from "./flow-files/locate-problem.ts";
import { readFlowFiles } from "./flow-files/read-files.ts";

export type Validation = {
  /** For which a deployment would be rejected. */
  readonly problems: readonly FileProblem[];
  /** What is valid, but probably not intended. Only determined if there are no problems. */
  readonly warnings: readonly FileProblem[];
};

/**
 * Validates files and folders of flows without a server, as a deployment of them does. Throws a CliFailure if one can't be read.
 */
export async function validateFlows(
  paths: readonly string[],
  readStdin: () => Promise<Uint8Array>,
): Promise<Validation> {
  try {
    const files = await readFlowFiles(paths, readStdin);
    return { problems: [], warnings: findFileWarnings(files) };
  } catch (error) {
    if (error instanceof FlowFilesFailure) {
      return { problems: error.problems, warnings: [] };
    }
    throw error;
  }
}

function findFileWarnings(files: FlowFiles): FileProblem[] {
  const { flows } = parseFlows(checkFlows(files).flows);
  const indices = new Map(flows.map(({ id }, index) => [id, index]));
  const toProblem = (id: string, message: string): FileProblem[] => {
    const node = files.nodes[indices.get(id) ?? -1];
    return node === undefined ? [] : [problemOf(node, message)];
  };
  const nothing = { flows: [], credentials: new Map() };
  return [
    ...findMissingTypes(flows, undefined).flatMap(({ type, nodeIds }) =>
      nodeIds.flatMap((id) => toProblem(id, `${type}: there is no such subflow, so that the runtime starts no flow`)),
    ),
    ...findWarnings(nothing, { flows, credentials: new Map() }).flatMap(({ nodeId, message }) =>
      toProblem(nodeId, message),
    ),
  ];
}
