import { CliFailure } from "../failure.ts";
import type { Problem } from "../yaml/parse-yaml.ts";

/** What is wrong at a place in a file. */
export type FileProblem = Problem & { readonly file: string };

/** Files of flows are invalid. The message has a line for each problem. */
export class FlowFilesFailure extends CliFailure {
  readonly problems: readonly FileProblem[];

  constructor(problems: readonly FileProblem[]) {
    super(problems.map(formatProblem).join("\n"));
    this.name = "FlowFilesFailure";
    this.problems = problems;
  }
}

/** `tabs/heating.yaml:12:5: wires[0]: must be an array of node ids` */
export function formatProblem({ file, line, column, message }: FileProblem): string {
  return `${file}:${line}:${column}: ${message}`;
}
