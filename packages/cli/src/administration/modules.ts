import { readFile } from "node:fs/promises";
import {
  type ChangeModuleResponse,
  ChangeModuleResponseSchema,
  DeploymentOutcome,
  ListModulesResponseSchema,
  type Module,
} from "@flowgate/client";
import type { ClientContext } from "../client/action.ts";
import { ifPermitted } from "../client/session.ts";
import { UsageFailure } from "../failure.ts";
import type { Cell } from "../output/output.ts";
import { printable } from "../printable.ts";
import { notRunning } from "./runtime.ts";

type ForceFlags = { readonly force?: boolean };

export async function listModules({ session, output }: ClientContext): Promise<void> {
  const response = await session.modules.listModules({});
  const { modules, missingTypes, disabledSets } = response;
  const rows = [...modules.map(toRow), ...disabledSets.map((id): Cell[] => [id, "", "disabled", "", ""])];
  output.message(ListModulesResponseSchema, response, () =>
    rows.length === 0
      ? "There are no modules. Install one with flowgate module install."
      : output.table(["NAME", "VERSION", "STATE", "USED BY", "NODE TYPES"], rows),
  );
  if (missingTypes.length > 0) {
    process.stderr.write(
      `flowgate: The active flows need node types that are not installed: ${missingTypes.map(printable).join(", ")}.\n`,
    );
  }
}

/** Installs packages of the registry, by `name` or `name@version`, and tarballs, by their paths. */
export async function installModules(context: ClientContext, specs: readonly string[]): Promise<void> {
  await changeEach(context, specs, "Installing", "Installed", async (spec, deferRestart) =>
    context.session.modules.installModule(
      /\.(?:tgz|tar\.gz)$/.test(spec)
        ? { tarball: await readTarball(spec), deferRestart }
        : { ...splitSpec(spec), deferRestart },
    ),
  );
}

/** Installs other versions of modules: the newest, or those after an @. */
export async function updateModules(context: ClientContext, specs: readonly string[]): Promise<void> {
  await changeEach(context, specs, "Updating", "Updated", (spec, deferRestart) => {
    const { name, version } = splitSpec(spec);
    return context.session.modules.updateModule({ name, version: version || "latest", deferRestart });
  });
}

export async function removeModules(
  context: ClientContext,
  names: readonly string[],
  { force = false }: ForceFlags,
): Promise<void> {
  await changeEach(context, names, "Removing", "Removed", (name, deferRestart) =>
    context.session.modules.deleteModule({ name, force, deferRestart }),
  );
}

export async function enableModules(context: ClientContext, names: readonly string[]): Promise<void> {
  await changeEach(context, names, "Enabling", "Enabled", (id, deferRestart) =>
    context.session.modules.updateModule({ ...splitId(id), enabled: true, deferRestart }),
  );
}

export async function disableModules(
  context: ClientContext,
  names: readonly string[],
  { force = false }: ForceFlags,
): Promise<void> {
  await changeEach(context, names, "Disabling", "Disabled", (id, deferRestart) =>
    context.session.modules.updateModule({ ...splitId(id), enabled: false, force, deferRestart }),
  );
}

type ChangeModule = (item: string, deferRestart: boolean) => Promise<ChangeModuleResponse>;

/** Changes one module after another, and reports each. With the last one, the flows have all. Throws a CliFailure if they do not run then. */
async function changeEach(
  context: ClientContext,
  items: readonly string[],
  doing: string,
  done: string,
  change: ChangeModule,
): Promise<void> {
  const { output, progress } = context;
  let last: ChangeModuleResponse | undefined;
  let isRestartDue = false;
  try {
    for (const [index, item] of items.entries()) {
      const deferRestart = index < items.length - 1;
      const response = await progress.during(`${doing} ${item}`, () => change(item, deferRestart));
      isRestartDue = deferRestart || (isRestartDue && response.outcome === DeploymentOutcome.UNSPECIFIED);
      output.item(ChangeModuleResponseSchema, response, () => `${done} ${nameOf(response.module, item)}.`);
      warnOfScripts(response);
      last = response;
    }
  } finally {
    // The last change has failed, or changed nothing.
    if (isRestartDue) {
      await restartFlows(context);
    }
  }
  if (last?.outcome === DeploymentOutcome.FAILED) {
    throw notRunning(
      `The flows ${last.restarted === false ? "do not run" : "were started again, but do not run"}`,
      last,
    );
  }
}

async function restartFlows({ session, progress }: ClientContext): Promise<void> {
  const restarted = await progress
    .during("Starting the flows again", () =>
      ifPermitted(session, "runtime.write", () => session.runtime.restartRuntime({})),
    )
    .catch(() => undefined);
  if (restarted === undefined) {
    process.stderr.write("flowgate: The flows were not started again: run flowgate runtime restart.\n");
  }
}

function warnOfScripts({ scriptsNotRun, scriptsNeverRun }: ChangeModuleResponse): void {
  const runnable = scriptsNotRun.filter((name) => !scriptsNeverRun.includes(name));
  if (runnable.length > 0) {
    process.stderr.write(
      `flowgate: The install scripts of ${runnable.map(printable).join(", ")} were not run. If the module does not ` +
        "load without them, name the packages in modules.scripts of the configuration of the service, and install it again.\n",
    );
  }
  if (scriptsNeverRun.length > 0) {
    process.stderr.write(
      `flowgate: The install scripts of ${scriptsNeverRun.map(printable).join(", ")} are never run, since the packages were uploaded, ` +
        "or a module has brought them by this name. If the module does not load without them, install the packages from the registry.\n",
    );
  }
}

function nameOf(module: Module | undefined, item: string): string {
  if (module === undefined) {
    return "";
  }
  const { name, version, sets } = module;
  const isSet = sets.some((set) => item === `${name}/${set.name}`);
  return `${isSet ? item : name} ${version}`;
}

/** The name of a module, and that of one of its sets of nodes after a further slash. */
function splitId(id: string): { readonly name: string; readonly set: string } {
  const [, name = id, set = ""] = /^((?:@[^/]+\/)?[^/]+)\/([^/]+)$/.exec(id) ?? [];
  return { name, set };
}

function splitSpec(spec: string): { readonly name: string; readonly version: string } {
  const at = spec.indexOf("@", 1);
  return at === -1 ? { name: spec, version: "" } : { name: spec.slice(0, at), version: spec.slice(at + 1) };
}

async function readTarball(path: string): Promise<Uint8Array> {
  try {
    return await readFile(path);
  } catch (error) {
    throw new UsageFailure(`${path}: ${(error as Error).message}`);
  }
}

function toRow({ name, version, enabled, loaded, nodeCount, types }: Module): Cell[] {
  const nodes = nodeCount === 0 ? "" : `${nodeCount} ${nodeCount === 1 ? "node" : "nodes"}`;
  return [name, version, stateOf(enabled, loaded), nodes, types.join(", ")];
}

function stateOf(enabled: boolean, loaded: boolean | undefined): Cell {
  if (!enabled) {
    return "disabled";
  }
  if (loaded === undefined) {
    return "";
  }
  return loaded ? "loaded" : { style: "red", text: "not loaded" };
}
