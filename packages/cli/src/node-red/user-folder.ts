import { readdir } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { Document, parseDocument } from "yaml";
import type { Credentials, Node } from "@flowgate/client";
import { type FlowNode, parseFlows } from "@flowgate/flows";
import { CliFailure } from "../failure.ts";
import { checkFlows } from "../flow-files/check-flows.ts";
import { type FlowFiles, readBytes, readContent } from "../flow-files/read-file.ts";
import { parseSource } from "../flow-files/source.ts";
import type { ServiceCommands } from "../service-commands.ts";
import { formatYaml } from "../yaml.ts";
import {
  type ActiveFlows,
  findActiveFlows,
  type FlowsLocation,
  nameIn,
  readJson,
  readOptional,
} from "./active-flows.ts";
import { type ContextEntry, readContextFiles } from "./context-files.ts";
import { readCredentials, type Secret, type Secrets } from "./credentials.ts";
import { type LibraryEntry, readLibrary } from "./library-files.ts";
import { translateModules } from "./module-lists.ts";
import { ImportReport, type ImportOutcome, type ReportEntry } from "./report.ts";
import { findModules, type Module } from "./required-modules.ts";
import { findSandboxNeeds } from "./sandbox-needs.ts";
import { translateSettings } from "./settings.ts";
import { memberOf, type Setting, textOf, toJson } from "./settings-file.ts";
import { readAdminAuth } from "./users.ts";

/** The parts of a Node-RED user folder that Flowgate imports. */
export type NodeRedImport = {
  readonly flowsFile: string;
  readonly flows: readonly Node[];
  /** Undefined if there is no credentials file. */
  readonly credentials: Credentials | undefined;
  /** The lines for flowgate.yaml; undefined if none are needed. */
  readonly configuration: string | undefined;
  /** To be installed before the flows can run. */
  readonly modules: readonly Module[];
  /** Values to be set when the flows run. */
  readonly context: readonly ContextEntry[];
  readonly library: readonly LibraryEntry[];
  /** How the settings, and other things that flows need, are imported. */
  readonly report: readonly ReportEntry[];
};

export type NodeRedSource = FlowsLocation & {
  /** Has precedence over those in the folder. */
  readonly credentialSecret?: string | undefined;
  /** By default, the configuration is not checked. */
  readonly checkConfiguration?: ServiceCommands["checkConfiguration"];
};

/**
 * Reads the user folder of a Node-RED (usually `~/.node-red`), or the folder of one of its projects, without running any code in it. Throws a
 * CliFailure if the flows or their credentials can't be read completely.
 */
export async function readUserFolder({
  credentialSecret,
  checkConfiguration = async () => [],
  ...location
}: NodeRedSource): Promise<NodeRedImport> {
  const report = new ImportReport();
  const active = await findActiveFlows(location, report);
  const { userFolder, settings, flowsFile, project } = active;
  const { flows } = checkFlows(await readFlows(flowsFile));
  const nodes = parseFlows(flows).flows;
  const types = new Map(nodes.map(({ id, type }) => [id, type]));
  const imported = await importCredentials(active, credentialSecret, types);
  const { modules, notes } = findModules(
    nodes,
    [project?.manifest, await readJson(join(userFolder, "package.json"))],
    await readJson(join(userFolder, ".config.nodes.json")),
  );

  const file = nameIn(userFolder, flowsFile);
  for (const detail of imported?.notes ?? []) {
    report.add({ name: "credentials", file, outcome: "not_possible", detail });
  }
  for (const detail of notes) {
    report.add({ name: "modules", file: "package.json", outcome: "not_possible", detail });
  }
  await reportNodes(userFolder, report);
  translateUsers(settings, report);
  if (settings !== undefined) {
    translateSettings(settings, { folder: userFolder, hasProject: project !== undefined }, report);
  }
  const installable = settings === undefined ? modules : translateModules(settings, modules, report);
  await removeUnacceptable(report, checkConfiguration);
  const needs = findSandboxNeeds(nodes);
  if (needs.configuration !== undefined) {
    const detail = "runtime.allow, for what the sandbox denies: check it before you permit it";
    report.add({ name: "flows", file, outcome: "changed", detail });
  }
  for (const detail of needs.notes) {
    report.add({ name: "flows", file, outcome: "changed", detail });
  }
  return {
    flowsFile,
    flows,
    credentials: imported?.credentials,
    configuration: formatConfiguration(report.configuration, needs.configuration),
    modules: installable,
    context: await readContext(userFolder, nodes, settings, report),
    library: await readLibrary(userFolder, report),
    report: report.entries,
  };
}

async function readFlows(file: string): Promise<FlowFiles> {
  const bytes = await readBytes(file);
  await assertContent(file, bytes, "specify another one with --flow-file, or write [] into it if there are no flows");
  return readContent(parseSource(file, bytes));
}

/** Throws a CliFailure for an empty file, in whose place Node-RED itself loads its backup. */
async function assertContent(file: string, bytes: Uint8Array, otherwise: string): Promise<void> {
  if (bytes.length > 0) {
    return;
  }
  const backup = `.${basename(file)}.backup`;
  const found = await readOptional(join(dirname(file), backup));
  const restore =
    found === undefined || found.length === 0 ? "" : `restore it from Node-RED's backup of it, ${backup}, or `;
  throw new CliFailure(`${file}: is empty: ${restore}${otherwise}`);
}

async function importCredentials(
  { userFolder, settings, credentialsFiles, project }: ActiveFlows,
  given: string | undefined,
  types: ReadonlyMap<string, string>,
): Promise<ReturnType<typeof readCredentials> | undefined> {
  for (const file of credentialsFiles) {
    const bytes = await readOptional(file);
    if (bytes !== undefined) {
      await assertContent(file, bytes, "remove it if no node has credentials");
      const secrets =
        given === undefined
          ? await findSecrets(userFolder, settings, project?.secret)
          : { found: [{ value: given, origin: "the specified secret" }], missing: "" };
      return readCredentials(file, parseSource(file, bytes).value, secrets, types);
    }
  }
  return undefined;
}

/** Node-RED itself uses the secret of the project, that of the settings, or one that it has generated, which it keeps until it has migrated. */
async function findSecrets(
  folder: string,
  settings: Setting | undefined,
  ofProject: Secret | undefined,
): Promise<Secrets> {
  const setting = memberOf(settings, "credentialSecret");
  const configured = textOf(setting) ?? (setting?.kind === "code" ? textOf(setting.fallback) : undefined);
  const found: Secret[] = ofProject === undefined ? [] : [ofProject];
  if (configured !== undefined) {
    found.push({ value: configured, origin: "the credentialSecret of settings.js" });
  }
  for (const name of [".config.runtime.json", ".config.json"]) {
    const config = Object(await readJson(join(folder, name))) as { readonly _credentialSecret?: unknown };
    if (typeof config._credentialSecret === "string") {
      found.push({ value: config._credentialSecret, origin: `the _credentialSecret of ${name}` });
    }
  }
  const missing =
    setting?.kind === "code"
      ? `settings.js:${setting.line} has no credentialSecret that can be read: ${setting.reason}`
      : "neither settings.js nor .config.runtime.json has the secret";
  return { found, missing };
}

const maxNamedFiles = 20;

/** Nodes that Node-RED loads from files of the user folder, which are no modules. */
async function reportNodes(folder: string, report: ImportReport): Promise<void> {
  const entries = await readdir(join(folder, "nodes"), { recursive: true }).catch(() => []);
  const programs = entries.filter((name) => name.endsWith(".js") && !/(?:^|\/)node_modules\//.test(name)).toSorted();
  if (programs.length === 0) {
    return;
  }
  const shown = programs.slice(0, maxNamedFiles).join(", ");
  const more = programs.length > maxNamedFiles ? ` and ${programs.length - maxNamedFiles} more` : "";
  const detail =
    `nodes are loaded from modules only: make one of ${shown}${more}, with a package.json that names them in node-red.nodes, and npm pack, ` +
    "and install it with flowgate module install FILE.tgz";
  report.add({ name: "nodes", file: "nodes/", outcome: "not_possible", detail });
}

function translateUsers(settings: Setting | undefined, report: ImportReport): void {
  const adminAuth = memberOf(settings, "adminAuth");
  if (adminAuth === undefined) {
    return;
  }
  const entries: ReportEntry[] = [];
  const entryOf = (name: string, { line }: Setting, outcome: ImportOutcome, detail: string): ReportEntry => ({
    name,
    file: `settings.js:${line}`,
    outcome,
    detail,
  });
  const users = readAdminAuth(adminAuth, (name, setting, reason, outcome = "not_possible") =>
    entries.push(entryOf(name, setting, outcome, reason)),
  );
  if (users !== undefined) {
    report.add(entryOf("adminAuth", adminAuth, "taken_over", "adminAuth"), ["adminAuth"], users);
  }
  entries.forEach((entry) => report.add(entry));
}

/** Removes what the service would not accept, which the report then says. */
async function removeUnacceptable(report: ImportReport, check: ServiceCommands["checkConfiguration"]): Promise<void> {
  for (let isChanged = true; isChanged;) {
    isChanged = false;
    for (const { path, message } of await check(report.configuration)) {
      isChanged = report.reject(path, message) || isChanged;
    }
  }
}

/** `permissions` has comments. */
function formatConfiguration(values: object, permissions: string | undefined): string | undefined {
  if (Object.keys(values).length === 0) {
    return permissions;
  }
  const document = new Document(values, { aliasDuplicateObjects: false });
  if (permissions !== undefined) {
    document.setIn(["runtime", "allow"], parseDocument(permissions).getIn(["runtime", "allow"], true));
  }
  return formatYaml(document);
}

/** The values of all stores in files. Without a setting, those of the folder that such stores have by default. */
async function readContext(
  folder: string,
  flows: readonly FlowNode[],
  settings: Setting | undefined,
  report: ImportReport,
): Promise<ContextEntry[]> {
  const storage = Object(toJson(memberOf(settings, "contextStorage")).value) as Readonly<Record<string, unknown>>;
  const stores = Object.entries(storage).flatMap(([store, options]) => {
    const { module, config } = Object(options) as { module?: unknown; config?: unknown };
    const { base = "context" } = Object(config) as { base?: unknown };
    return module === "localfilesystem" && typeof base === "string" && /^[\w-]+$/.test(base) ? [{ store, base }] : [];
  });
  const found = stores.length > 0 ? stores : [{ store: "default", base: "context" }];
  return (await Promise.all(found.map((each) => readContextFiles(folder, { ...each, flows }, report)))).flat();
}
