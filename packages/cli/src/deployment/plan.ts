import { create } from "@bufbuild/protobuf";
import {
  type Credentials,
  DeploymentType,
  type FlowModule,
  FlowsDiffSchema,
  ModuleState,
  type Node,
  type PlanFlowsResponse,
  PlanFlowsResponseSchema,
  type RequiredModule,
} from "@flowgate/client";
import { findRevision } from "../administration/history.ts";
import type { ClientContext } from "../client/action.ts";
import { ifPermitted, type ClientSession } from "../client/session.ts";
import type { DeploymentFlags, FlowsFlags } from "../shared-flags.ts";
import { CliFailure, exitCodes, UsageFailure } from "../failure.ts";
import { checkFlows } from "../flow-files/check-flows.ts";
import { type FileValue, readBytes } from "../flow-files/read-file.ts";
import { readFlowFiles } from "../flow-files/read-files.ts";
import { parseSource } from "../flow-files/source.ts";
import { diffOf, hasChanges, styleDiff, stylePlan } from "../output/changes.ts";
import type { Output } from "../output/output.ts";
import { printable, printableLines } from "../printable.ts";
import { deploymentType } from "./outcome.ts";

/** Flows to deploy. */
export type FlowsInput = {
  readonly flows: readonly Node[];
  /** The revision that they were made from, if that is known. */
  readonly rev?: string | undefined;
  readonly credentials?: Credentials | undefined;
  /** The modules that are installed with them. */
  readonly modules?: readonly FlowModule[] | undefined;
};

type ReadFlags = { readonly rev?: string | undefined; readonly credentials?: string | undefined };

/** Reads files and folders, and checks them as the service does. Throws a CliFailure with all that is invalid. */
export async function readFlows(
  session: ClientSession,
  paths: readonly string[],
  { rev, credentials: path }: ReadFlags,
): Promise<FlowsInput> {
  const files = await readFlowFiles(paths);
  if (path !== undefined && files.credentials !== undefined) {
    throw new UsageFailure(`--credentials: ${files.credentials.source.file} has credentials already.`, "flowgate");
  }
  const credentials = path === undefined ? files.credentials : await readCredentials(path);
  const input = checkFlows({ ...files, credentials });
  return rev === undefined ? input : { ...input, rev: await resolveRev(session, rev) };
}

/** Callers who can't read the history can name the active revision, also by the beginning of its rev, and others by the whole rev. */
async function resolveRev(session: ClientSession, name: string): Promise<string> {
  if (name === "") {
    throw new UsageFailure("--rev: is empty. Name a revision, or leave it out.");
  }
  const find = () => findRevision(session, name);
  // There is no other way to find an earlier one.
  const isEarlier = /^(?:@|active)~/.test(name);
  const revision = await (isEarlier ? find() : ifPermitted(session, "revisions.read", find));
  if (revision !== undefined) {
    return revision.rev;
  }
  const { rev } = await session.flows.planFlows({ deploymentType: DeploymentType.RELOAD });
  return name === "@" || name === "active" || rev.startsWith(name) ? rev : name;
}

async function readCredentials(path: string): Promise<FileValue> {
  const source = parseSource(path, await readBytes(path));
  return { value: source.value, source, path: [] };
}

type PlanFlags = Pick<DeploymentFlags, "type"> & { readonly merge?: true };
type WarningFlags = { readonly allWarnings?: true };

/** Asks the server what a deployment would do. */
export async function planFlows(
  { session, progress }: ClientContext,
  input: FlowsInput,
  { merge, ...flags }: PlanFlags,
): Promise<PlanFlowsResponse> {
  // What is merged are the changes since `rev`. Otherwise, it has to be active.
  const { rev } = input;
  const start = rev === undefined ? {} : merge === true ? { base: rev } : { rev };
  const request = { ...contentOf(input), deploymentType: deploymentType(flags), ...start };
  return progress.during("Planning", () => session.flows.planFlows(request));
}

/** The fields of a request that have the flows. */
export function contentOf({ flows, credentials, modules = [] }: FlowsInput) {
  return { flows: [...flows], modules: [...modules], ...(credentials !== undefined && { credentials }) };
}

/** The modules that the deployment of a plan installs: those of the files that are missing, or have other versions. */
export function modulesToInstall(
  { modules = [] }: Pick<FlowsInput, "modules">,
  plan: Pick<PlanFlowsResponse, "modules">,
): readonly RequiredModule[] {
  const named = new Set(modules.map(({ name }) => name));
  return plan.modules.filter(({ name, state }) => named.has(name) && state !== ModuleState.PRESENT);
}

/** Prints what a deployment would do. Throws a CliFailure if its flows would not run. */
export async function printPlan(
  context: ClientContext,
  paths: readonly string[],
  flags: FlowsFlags & PlanFlags & WarningFlags,
): Promise<void> {
  await printFlowsPlan(context, await readFlows(context.session, paths, flags), flags);
}

/** The same for flows that are not in files. */
export async function printFlowsPlan(
  context: ClientContext,
  input: FlowsInput,
  { allWarnings, ...flags }: PlanFlags & WarningFlags,
): Promise<void> {
  const { output } = context;
  const plan = await planFlows(context, input, flags);
  // The server counts the nodes that a deployment of the same flows would restart, which flowgate deploy does not make.
  const toInstall = modulesToInstall(input, plan);
  const numbers =
    hasChanges(plan) || toInstall.length > 0
      ? undefined
      : "No changes: these flows are active, and flowgate deploy would restart nothing.";
  output.message(PlanFlowsResponseSchema, plan, () => stylePlan(plan, output, { numbers, allWarnings }));
  // Modules to install may have these types.
  if (plan.missingTypes.length > 0 && toInstall.length === 0) {
    throw new CliFailure("The flows would not run: install the modules of the missing types first.", {
      exitCode: exitCodes.notRunning,
    });
  }
}

/** Shows what is about to be deployed. With `-o`, stdout has the result only. */
export function showPreview({ format }: Output, text: string): void {
  const stream = format === undefined ? process.stdout : process.stderr;
  stream.write(`${printableLines(text)}\n`);
}

/** Prints what changes from a revision, by default the active one, to files; or from one revision to another. Exits with 2 if anything does. */
export async function diff(
  context: ClientContext,
  paths: readonly string[],
  { rev, base, credentials }: { readonly rev?: string; readonly base?: string; readonly credentials?: string },
): Promise<void> {
  const { session } = context;
  if (paths.length === 0 && rev !== undefined) {
    return diffRevisions(context, rev, base);
  }
  if (paths.length === 0 || rev !== undefined) {
    throw new UsageFailure("Name either files or, with --rev, a revision.");
  }
  const input = await readFlows(session, paths, { credentials });
  return diffFlows(context, input, base === undefined ? "" : (await findRevision(session, base)).rev);
}

/** Prints what changes from a revision to these flows; from the active one if `base` is empty. Exits with 2 if anything does. */
export async function diffFlows(context: ClientContext, input: FlowsInput, base: string): Promise<void> {
  const plan = await context.session.flows.planFlows({ ...contentOf(input), base });
  const toInstall = modulesToInstall(input, plan);
  if (toInstall.length > 0) {
    process.stderr.write(toInstall.map((module) => `flowgate: The module ${describeModule(module)}.\n`).join(""));
  }
  printDiff(context, { diff: plan.diff, text: diffOf(plan.text) }, toInstall.length > 0);
}

/** From its parent if `base` is undefined. */
async function diffRevisions(context: ClientContext, name: string, base: string | undefined): Promise<void> {
  const { session } = context;
  const [target, from] = await Promise.all([
    findRevision(session, name),
    base === undefined ? { rev: "" } : findRevision(session, base),
  ]);
  printDiff(context, await session.revisions.diffRevision({ rev: target.rev, base: from.rev }));
}

/** The names of the modules of a plan that are installed. */
export function presentModules({ modules }: Pick<PlanFlowsResponse, "modules">): ReadonlySet<string> {
  return new Set(modules.filter(({ state }) => state === ModuleState.PRESENT).map(({ name }) => name));
}

/** `contrib-one 1.0.0 is not installed` */
export function describeModule({ name, version = "", state, installedVersion = "" }: RequiredModule): string {
  const found = state === ModuleState.MISSING ? "" : `: ${installedVersion || "another version"} is`;
  return printable(`${name} ${version} is not installed${found}`);
}

function printDiff(
  { output }: ClientContext,
  changes: Pick<PlanFlowsResponse, "diff" | "text">,
  hasOthers = false,
): void {
  output.message(FlowsDiffSchema, changes.diff ?? create(FlowsDiffSchema), () => styleDiff(changes, output));
  if (hasChanges(changes) || hasOthers) {
    throw new CliFailure("", { exitCode: exitCodes.differences });
  }
}
