import { create } from "@bufbuild/protobuf";
import { FlowsDiffSchema, type PlanFlowsResponse } from "@flowgate/client";
import type { ClientContext } from "../client/client-action.ts";
import { CliFailure, exitCodes } from "../failure.ts";
import { diffOf, styleDiff } from "../output/changes.ts";
import { findRevision } from "../revisions/find-revision.ts";
import type { FlowsInput } from "./read-flows.ts";

/** Prints what changes from a revision to these flows; from the active one if `base` is empty. Exits with 2 if anything does. */
export async function diffFlows(
  context: ClientContext,
  { flows, credentials }: FlowsInput,
  base: string,
): Promise<void> {
  const request = { flows: [...flows], ...(credentials !== undefined && { credentials }), base };
  const { diff, text } = await context.session.flows.planFlows(request);
  print(context, diff, diffOf(text));
}

/** Prints what changes from a revision to another one; from its parent if `base` is undefined. Exits with 2 if anything does. */
export async function diffRevisions(context: ClientContext, name: string, base: string | undefined): Promise<void> {
  const { session } = context;
  const [target, from] = await Promise.all([
    findRevision(session, name),
    base === undefined ? { rev: "" } : findRevision(session, base),
  ]);
  const { diff, text } = await session.revisions.diffRevision({ rev: target.rev, base: from.rev });
  print(context, diff, text);
}

function print({ output }: ClientContext, diff: PlanFlowsResponse["diff"], text: string): void {
  output.message(FlowsDiffSchema, diff ?? create(FlowsDiffSchema), () => styleDiff(text, output));
  if (diff !== undefined && diff.containers.length > 0) {
    throw new CliFailure("", { exitCode: exitCodes.differences });
  }
}
