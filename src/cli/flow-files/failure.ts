import { CliFailure } from "../failure.ts";
import { printable } from "../printable.ts";
import type { Problem } from "../yaml/parse-yaml.ts";

/** What is wrong at a place in a file. */
export type FileProblem = Problem & { readonly file: string };

/** A file that is no flows at all may have thousands of problems. */
const maxLines = 20;

/** Files of flows are invalid. The message has a line for each of the first problems. */
export class FlowFilesFailure extends CliFailure {
  readonly problems: readonly FileProblem[];

  constructor(problems: readonly FileProblem[]) {
    const more = problems.length > maxLines ? [`and ${problems.length - maxLines} more problems`] : [];
    super([...problems.slice(0, maxLines).map(formatProblem), ...more].join("\n"));
    this.name = "FlowFilesFailure";
    this.problems = problems;
  }
}

/** `tabs/heating.yaml:12:5: wires[0]: must be an array of node ids` */
export function formatProblem({ file, line, column, message }: FileProblem): string {
  return printable(`${file}:${line}:${column}: ${message}`);
}
