import type { DescMessage, MessageShape } from "@bufbuild/protobuf";
import {
  DeploymentOutcome,
  DeploymentOutcomeSchema,
  RestartRuntimeResponseSchema,
  type ChangeModuleResponse,
  StartFlowsResponseSchema,
  StopFlowsResponseSchema,
} from "@flowgate/client";
import type { ClientContext } from "../client/action.ts";
import { CliFailure, exitCodes } from "../failure.ts";
import type { Output } from "../output/output.ts";
import { printable } from "../printable.ts";
import { askConfirmation, canAsk, confirm } from "../output/prompts.ts";
import { formatEnum } from "../output/values.ts";

export type RestartFlags = { readonly clearFiles?: boolean; readonly yes?: boolean };

/** Restarts the runtime. Throws a CliFailure if the flows do not run then. */
export async function restartRuntime(
  { session, output, progress }: ClientContext,
  { clearFiles = false, yes }: RestartFlags,
): Promise<void> {
  if (clearFiles && yes !== true) {
    await confirm("Remove all files that flows have written?", {
      declined: "Nothing was removed, and the runtime was not restarted.",
      unattended: new CliFailure("--clear-files: removes all files that flows have written: confirm it with --yes"),
    });
  }
  const response = await progress.during("Restarting the runtime", () =>
    session.runtime.restartRuntime({ clearFiles }),
  );
  finish(output, RestartRuntimeResponseSchema, response, {
    running: `The flows of revision ${printable(response.rev)} are running in a new process.`,
    failed: "The runtime was restarted, but its flows do not run",
  });
}

/** Starts the flows after they were stopped. Throws a CliFailure if they do not run then. */
export async function startFlows({ session, output, progress }: ClientContext): Promise<void> {
  const response = await progress.during("Starting the flows", () => session.runtime.startFlows({}));
  finish(output, StartFlowsResponseSchema, response, {
    running: `The flows of revision ${printable(response.rev)} are running.`,
    failed: "The flows were started, but do not run",
  });
}

/** Prints the response to a start of the flows. Throws a CliFailure if they do not run. */
function finish<D extends DescMessage>(
  output: Output,
  schema: D,
  response: MessageShape<D> & Pick<ChangeModuleResponse, "outcome" | "missingTypes">,
  texts: { readonly running: string; readonly failed: string },
): void {
  const isRunning = response.outcome === DeploymentOutcome.RUNNING;
  if (isRunning || output.format !== undefined) {
    output.message(schema, response, () => output.style("green", texts.running));
  }
  if (!isRunning) {
    throw notRunning(texts.failed, response);
  }
}

/** The failure of a command after which the flows do not run. */
export function notRunning(
  text: string,
  { outcome, missingTypes }: Pick<ChangeModuleResponse, "outcome" | "missingTypes">,
): CliFailure {
  const missing =
    missingTypes.length === 0 ? "" : ` These node types are not installed: ${printable(missingTypes.join(", "))}.`;
  return new CliFailure(`${text} (${formatEnum(DeploymentOutcomeSchema, outcome)}).${missing} See flowgate status.`, {
    exitCode: exitCodes.notRunning,
  });
}

/** Asks at a terminal, and stops the flows. Throws a CliFailure if some still run, or run again. */
export async function stopFlows(
  { session, output, progress, connection }: ClientContext,
  { yes }: { readonly yes?: true },
): Promise<void> {
  if (yes !== true && canAsk() && !(await askConfirmation(`Stop all flows at ${connection.server}?`))) {
    throw new CliFailure("Nothing was stopped.");
  }
  const response = await progress.during("Stopping the flows", () => session.runtime.stopFlows({}));
  const { runningReplicas, started } = response;
  if ((runningReplicas.length === 0 && !started) || output.format !== undefined) {
    output.message(
      StopFlowsResponseSchema,
      response,
      () => "The flows are stopped. They remain so, also after deployments and restarts, until flowgate start.",
    );
  }
  if (started) {
    throw new CliFailure("The flows are not stopped: they have been started again meanwhile. See flowgate audit list.");
  }
  if (runningReplicas.length > 0) {
    throw new CliFailure(
      `The flows are being stopped, but still run on: ${printable(runningReplicas.join(", "))}. See flowgate status.`,
    );
  }
}
