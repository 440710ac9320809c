import { CliFailure } from "../failure.ts";
import { FlowFilesFailure, formatProblem } from "../flow-files/failure.ts";
import type { Output } from "../output/output.ts";
import { validateFlows } from "../validate.ts";
import { readStdin } from "../flow-files/read-file.ts";

/** Prints what is wrong with files of flows. Throws a CliFailure if a deployment would be rejected. */
export async function printValidation(output: Output, paths: readonly string[]): Promise<void> {
  const validation = await validateFlows(paths, readStdin);
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
