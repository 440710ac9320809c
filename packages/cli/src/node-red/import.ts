import { writeFile } from "node:fs/promises";
import { fromJson } from "@bufbuild/protobuf";
import { ValueSchema } from "@bufbuild/protobuf/wkt";
import { ConnectError } from "@connectrpc/connect";
import { parse } from "yaml";
import type { ClientContext } from "../client/action.ts";
import type { DeploymentFlags } from "../shared-flags.ts";
import { deployFlows } from "../deployment/deploy.ts";
import { UnhealthyDeployment } from "../deployment/outcome.ts";
import { planFlows, presentModules, printFlowsPlan, showPreview } from "../deployment/plan.ts";
import { CliFailure } from "../failure.ts";
import type { ServiceCommands } from "../service-commands.ts";
import { readBytes } from "../flow-files/read-file.ts";
import type { Cell, Output, Styled } from "../output/output.ts";
import { askSecret, canAsk } from "../output/prompts.ts";
import type { ContextEntry } from "./context-files.ts";
import type { LibraryEntry } from "./library-files.ts";
import { MissingSecretFailure } from "./credentials.ts";
import type { ImportOutcome, ReportEntry } from "./report.ts";
import { formatInstall } from "./required-modules.ts";
import { type NodeRedImport, type NodeRedSource, readUserFolder } from "./user-folder.ts";

export type ImportFlags = DeploymentFlags & {
  readonly flowFile?: string;
  readonly credentialSecretFile?: string;
  readonly writeConfig?: string;
  readonly skipContext?: true;
  readonly skipLibrary?: true;
  readonly dryRun?: true;
};

/** Deploys the flows and credentials of a Node-RED, takes over its library and values of context, and reports what becomes of the rest. */
export async function importFolder(
  context: ClientContext,
  folder: string,
  flags: ImportFlags,
  checkConfiguration: ServiceCommands["checkConfiguration"],
): Promise<void> {
  const { flowFile, credentialSecretFile, writeConfig, skipContext, skipLibrary, dryRun, ...deployment } = flags;
  const credentialSecret = await readSecret(credentialSecretFile);
  const imported = await readWithSecret({ folder, flowFile, credentialSecret, checkConfiguration });
  const input = { flows: imported.flows, credentials: imported.credentials };
  const plan = await planFlows(context, input, deployment);
  const missing = new Set(plan.missingTypes.map(({ type }) => type));
  const present = presentModules(plan);
  const modules = imported.modules.filter(({ name, types }) =>
    types === undefined ? !present.has(name) : types.some((type) => missing.has(type)),
  );
  const { configuration } = imported;
  const report = imported.report.filter(({ name }) => skipLibrary !== true || name !== "library");
  if (writeConfig !== undefined) {
    await writeConfiguration(writeConfig, configuration ?? "");
  }
  showPreview(context.output, formatReport({ ...imported, modules, report }, context.output));
  const members = {
    report,
    configuration: configuration === undefined ? {} : (parse(configuration) as object),
    modules: modules.map(({ name, version, types }) => ({ name, version, types })),
  };
  const reporting = { ...context, output: context.output.with(members) };
  if (dryRun === true) {
    await printFlowsPlan(reporting, input, deployment);
    return;
  }
  const problem = await deployFlows(reporting, input, deployment).catch((error: unknown) => {
    // The rest is imported all the same: it may be what the flows lack.
    if (error instanceof UnhealthyDeployment) {
      return error;
    }
    throw error;
  });
  assertComplete(
    [
      ...(skipLibrary === true || imported.library.length === 0 ? [] : await importLibrary(context, imported.library)),
      ...(skipContext === true || imported.context.length === 0 ? [] : await importContext(context, imported.context)),
    ],
    problem ?? undefined,
  );
}

/** It may contain hashes of passwords. */
async function writeConfiguration(path: string, text: string): Promise<void> {
  try {
    await writeFile(path, text, { flag: "wx", mode: 0o600 });
  } catch (error) {
    const { code = String(error) } = error as NodeJS.ErrnoException;
    throw new CliFailure(
      code === "EEXIST"
        ? `${path}: exists already: name another file for --write-config`
        : `${path}: can't be written (${code})`,
    );
  }
}

/** Returns why some of the values were not imported. */
async function importContext(
  { session, output, progress }: ClientContext,
  entries: readonly ContextEntry[],
): Promise<string[]> {
  const failures = await progress.during("Importing context", async () => {
    const { stores } = await session.context.listContext({});
    const missing = [...new Set(entries.map(({ store }) => store))].filter((store) => !stores.includes(store));
    return [
      ...missing.map(
        (store) =>
          `the service has no store ${JSON.stringify(store)}: add runtime.contextStorage to its configuration, start it again, and import again`,
      ),
      ...(await importEach(
        entries.filter(({ store }) => !missing.includes(store)),
        ({ store, scope }) => `${scope} in the store ${store}`,
        ({ store, scope, value }) =>
          session.context.setContext({ scope, store, content: { value: fromJson(ValueSchema, value) } }),
      )),
    ];
  });
  if (failures.length === 0) {
    showPreview(output, `Imported ${entries.length} ${entries.length === 1 ? "value" : "values"} of context.`);
  }
  return failures;
}

/** Returns why some of the entries were not imported. */
async function importLibrary(
  { session, output, progress }: ClientContext,
  entries: readonly LibraryEntry[],
): Promise<string[]> {
  const failures = await progress.during("Importing the library", () =>
    importEach(
      entries,
      ({ type, path }) => `lib/${type}/${path}`,
      ({ type, path, text, details }) => session.library.setLibraryEntry({ type, path, content: { text, details } }),
    ),
  );
  if (failures.length === 0) {
    showPreview(output, `Imported ${entries.length} ${entries.length === 1 ? "entry" : "entries"} of the library.`);
  }
  return failures;
}

async function importEach<Entry>(
  entries: readonly Entry[],
  nameOf: (entry: Entry) => string,
  send: (entry: Entry) => Promise<unknown>,
): Promise<string[]> {
  const failures: string[] = [];
  for (const entry of entries) {
    try {
      await send(entry);
    } catch (error) {
      if (!(error instanceof ConnectError)) {
        throw error;
      }
      failures.push(`${nameOf(entry)}: ${error.rawMessage}`);
    }
  }
  return failures;
}

const maxShownFailures = 20;

/** Throws if something was not imported, or the flows do not run without errors because of `problem`. */
function assertComplete(failures: readonly string[], problem: UnhealthyDeployment | undefined): void {
  if (failures.length === 0) {
    if (problem !== undefined) {
      throw problem;
    }
    return;
  }
  const shown = failures.slice(0, maxShownFailures);
  const more = failures.length > shown.length ? [`and ${failures.length - shown.length} more`] : [];
  throw new CliFailure(
    [
      ...(problem === undefined ? [] : [problem.message]),
      "The flows were deployed, but not all else was imported:",
      ...shown,
      ...more,
    ].join("\n"),
    problem,
  );
}

async function readSecret(file: string | undefined): Promise<string | undefined> {
  if (file === undefined) {
    return process.env["NODE_RED_CREDENTIAL_SECRET"] || undefined;
  }
  return (await readBytes(file)).toString("utf8").replace(/\r?\n$/, "");
}

/** Asks for the secret if there is none, and a person to ask. */
async function readWithSecret(source: NodeRedSource): Promise<NodeRedImport> {
  try {
    return await readUserFolder(source);
  } catch (error) {
    if (!(error instanceof MissingSecretFailure)) {
      throw error;
    }
    if (source.credentialSecret !== undefined || !canAsk()) {
      throw new CliFailure(
        `${error.message}.\nThe secret can be in the file of --credential-secret-file, or in NODE_RED_CREDENTIAL_SECRET.`,
        { cause: error },
      );
    }
    return readUserFolder({ ...source, credentialSecret: await askSecret("credentialSecret of Node-RED") });
  }
}

function formatReport(imported: NodeRedImport, output: Output): string {
  const { flowsFile, flows, credentials, configuration, modules, report } = imported;
  const withCredentials = Object.keys(credentials?.nodes ?? {}).length;
  const section = (title: string, text: string): string[] => [output.style("bold", title), text, ""];
  return [
    `${flowsFile}: ${flows.length} nodes, ${withCredentials} of them with credentials`,
    "",
    ...(report.length === 0
      ? []
      : section("What becomes of the rest:", output.table(["NAME", "FILE", "OUTCOME", "DETAIL"], report.map(toRow)))),
    ...(configuration === undefined ? [] : section("For flowgate.yaml:", configuration.trimEnd())),
    ...(modules.length === 0
      ? []
      : section(
          "The flows need modules that are not installed. Run this first, which requires the permission modules.write:",
          formatInstall(modules),
        )),
  ].join("\n");
}

const outcomes: Readonly<Record<ImportOutcome, Styled>> = {
  taken_over: { style: "green", text: "taken over" },
  changed: { style: "yellow", text: "changed" },
  not_needed: { style: "gray", text: "not needed" },
  not_possible: { style: "red", text: "not possible" },
};

function toRow({ name, file, outcome, detail }: ReportEntry): Cell[] {
  return [name, file, outcomes[outcome], detail];
}
