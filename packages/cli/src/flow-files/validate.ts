import { parseFlows, findMissingTypes, findWarnings } from "@flowgate/flows";
import { CliFailure } from "../failure.ts";
import type { Output } from "../output/output.ts";
import { checkFlows, problemOf } from "./check-flows.ts";
import type { FlowFiles } from "./read-file.ts";
import { readFlowFiles } from "./read-files.ts";
import { type FileProblem, FlowFilesFailure, formatProblem } from "./source.ts";

/** Prints what is wrong with files of flows. Throws a CliFailure if a deployment would be rejected. */
export async function printValidation(output: Output, paths: readonly string[]): Promise<void> {
  const validation = await validateFlows(paths);
  const { problems, warnings } = validation;
  if (output.format !== undefined || problems.length === 0) {
    output.value(validation, () =>
      [
        ...warnings.map((each) => output.style("yellow", `warning: ${formatProblem(each)}`)),
        "The flows are valid.",
      ].join("\n"),
    );
  }
  if (problems.length > 0) {
    throw output.format === undefined ? new FlowFilesFailure(problems) : new CliFailure("");
  }
}

type Validation = {
  /** For which a deployment would be rejected. */
  readonly problems: readonly FileProblem[];
  /** Warnings about valid content that is probably not intended. Only determined if there are no problems. */
  readonly warnings: readonly FileProblem[];
};

/**
 * Validates files and folders of flows without a server, as a deployment of them does. Throws a CliFailure if one can't be read.
 */
export async function validateFlows(
  paths: readonly string[],
  readStdin?: () => Promise<Uint8Array>,
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
