import { readdir, realpath } from "node:fs/promises";
import { basename, dirname, extname, join, resolve, sep } from "node:path";
import { Document, parseDocument } from "yaml";
import type { Credentials, Node } from "../../../gen/flowgate/v1/flows_pb.ts";
import type { FlowNode } from "../../flows/configuration.ts";
import { parseFlows } from "../../flows/parse-flows.ts";
import { CliFailure } from "../failure.ts";
import { checkFlows } from "../flow-files/check-flows.ts";
import { explainReadError, readFlowFile, readIfExists } from "../flow-files/read-file.ts";
import { parseSource } from "../flow-files/source.ts";
import { formatYaml } from "../yaml.ts";
import { type ContextEntry, readContextFiles } from "./context-files.ts";
import { readCredentials, type Secret } from "./credentials.ts";
import { ImportReport, type ImportOutcome, type ReportEntry } from "./report.ts";
import { findModules, type Module } from "./required-modules.ts";
import { findSandboxNeeds } from "./sandbox-needs.ts";
import { translateSettings } from "./settings.ts";
import { memberOf, parseSettings, type Setting, textOf, toJson } from "./settings-file.ts";
import { readAdminAuth } from "./users.ts";

/** What Flowgate takes over from a user folder of Node-RED. */
export type NodeRedImport = {
  readonly flowsFile: string;
  readonly flows: readonly Node[];
  /** Undefined if there is no credentials file. */
  readonly credentials: Credentials | undefined;
  /** What to put into flowgate.yaml; undefined if nothing is needed. */
  readonly configuration: string | undefined;
  /** To be installed before the flows can run. */
  readonly modules: readonly Module[];
  /** Values to be set when the flows run. */
  readonly context: readonly ContextEntry[];
  /** What becomes of the settings, and of what flows need besides. */
  readonly report: readonly ReportEntry[];
};

export type NodeRedSource = {
  readonly folder: string;
  /** Has precedence over that of the settings, as on Node-RED's command line. Relative to the folder. */
  readonly flowFile?: string | undefined;
  /** Has precedence over those in the folder. */
  readonly credentialSecret?: string | undefined;
};

/**
 * Reads the user folder of a Node-RED (usually `~/.node-red`) without running any code in it. Throws a CliFailure if the flows or
 * their credentials can't be read completely.
 */
export async function readUserFolder({ folder, flowFile, credentialSecret }: NodeRedSource): Promise<NodeRedImport> {
  const settings = await readSettings(folder);
  const flowsFile = flowFile === undefined ? await findFlowsFile(folder, settings) : resolve(folder, flowFile);
  const { flows } = checkFlows(await readFlowFile(flowsFile));
  const nodes = parseFlows(flows).flows;
  const imported = await importCredentials(folder, flowsFile, settings, {
    credentialSecret,
    types: new Map(nodes.map(({ id, type }) => [id, type])),
  });

  const report = new ImportReport();
  for (const detail of imported?.notes ?? []) {
    report.add({ name: "credentials", file: basename(flowsFile), outcome: "not_possible", detail });
  }
  translateUsers(settings, report);
  if (settings !== undefined) {
    translateSettings(settings, folder, report);
  }
  await checkConfiguration(report);
  const needs = findSandboxNeeds(nodes);
  if (needs.configuration !== undefined) {
    const detail = "runtime.allow, for what the sandbox denies: check it before you permit it";
    report.add({ name: "flows", file: basename(flowsFile), outcome: "changed", detail });
  }
  for (const detail of needs.notes) {
    report.add({ name: "flows", file: basename(flowsFile), outcome: "changed", detail });
  }
  return {
    flowsFile,
    flows,
    credentials: imported?.credentials,
    configuration: formatConfiguration(report.configuration, needs.configuration),
    modules: findModules(
      nodes,
      await readJson(join(folder, "package.json")),
      await readJson(join(folder, ".config.nodes.json")),
    ),
    context: await readContext(folder, nodes, settings, report),
    report: report.entries,
  };
}

async function readSettings(folder: string): Promise<Setting | undefined> {
  const file = join(folder, "settings.js");
  const bytes = await readOptional(file);
  return bytes && parseSettings(file, bytes.toString("utf8"));
}

async function findFlowsFile(folder: string, settings: Setting | undefined): Promise<string> {
  const setting = memberOf(settings, "flowFile");
  const name = textOf(setting);
  if (name !== undefined) {
    const file = resolve(folder, name);
    await assertInside(folder, file, `${join(folder, "settings.js")}:${setting?.line}`);
    return file;
  }
  if (setting?.kind === "code") {
    throw new CliFailure(
      `${join(folder, "settings.js")}:${setting.line}: flowFile: ${setting.reason}: specify the file with --flow-file`,
    );
  }
  const names = await list(folder);
  const found = names.includes("flows.json")
    ? ["flows.json"]
    : names.filter((each) => /^flows_.*\.json$/.test(each) && !each.endsWith("_cred.json"));
  const [only] = found;
  if (only === undefined) {
    const hint = names.includes("projects")
      ? "specify a folder in its folder projects"
      : "specify the user folder of Node-RED, usually ~/.node-red";
    throw new CliFailure(`${folder}: has no flows.json and no flows_<host name>.json: ${hint}`);
  }
  if (found.length > 1) {
    throw new CliFailure(`${folder}: has several files of flows (${found.join(", ")}): specify one with --flow-file`);
  }
  return join(folder, only);
}

/** Settings of others must not make a deployment of any file of this user. */
async function assertInside(folder: string, file: string, setting: string): Promise<void> {
  const [root, target] = await Promise.all(
    // Files that do not exist are reported when they are read.
    [folder, file].map((path) => realpath(path).catch(() => resolve(path))),
  );
  if (target?.startsWith(`${root}${sep}`) !== true) {
    throw new CliFailure(
      `${setting}: flowFile: leads out of ${folder}: if that is intended, specify the file with --flow-file`,
    );
  }
}

async function importCredentials(
  folder: string,
  flowsFile: string,
  settings: Setting | undefined,
  {
    credentialSecret,
    types,
  }: Pick<NodeRedSource, "credentialSecret"> & { readonly types: ReadonlyMap<string, string> },
): Promise<ReturnType<typeof readCredentials> | undefined> {
  const extension = extname(flowsFile);
  const name = `${basename(flowsFile, extension)}_cred${extension}`;
  for (const file of new Set([join(folder, name), join(dirname(flowsFile), name)])) {
    const bytes = await readOptional(file);
    if (bytes?.length === 0) {
      throw new CliFailure(
        `${file}: is empty: restore it from Node-RED's backup of it, .${name}.backup, or remove it if no node has credentials`,
      );
    }
    if (bytes !== undefined) {
      const secrets = await findSecrets(folder, settings, credentialSecret);
      return readCredentials(file, parseSource(file, bytes).value, secrets, types);
    }
  }
  return undefined;
}

/** Node-RED itself uses the secret of the settings, or one that it has generated, which it keeps until it has migrated. */
async function findSecrets(
  folder: string,
  settings: Setting | undefined,
  given: string | undefined,
): Promise<Secret[]> {
  if (given !== undefined) {
    return [{ value: given, origin: "the specified secret" }];
  }
  const configured = textOf(memberOf(settings, "credentialSecret"));
  const secrets =
    configured === undefined ? [] : [{ value: configured, origin: "the credentialSecret of settings.js" }];
  for (const name of [".config.runtime.json", ".config.json"]) {
    const config = Object(await readJson(join(folder, name))) as { readonly _credentialSecret?: unknown };
    if (typeof config._credentialSecret === "string") {
      secrets.push({ value: config._credentialSecret, origin: `the _credentialSecret of ${name}` });
    }
  }
  return secrets;
}

function translateUsers(settings: Setting | undefined, report: ImportReport): void {
  const adminAuth = memberOf(settings, "adminAuth");
  if (adminAuth === undefined) {
    return;
  }
  const failures: ReportEntry[] = [];
  const entryOf = (name: string, { line }: Setting, outcome: ImportOutcome, detail: string): ReportEntry => ({
    name,
    file: `settings.js:${line}`,
    outcome,
    detail,
  });
  const users = readAdminAuth(adminAuth, (...[name, setting, reason]) =>
    failures.push(entryOf(name, setting, "not_possible", reason)),
  );
  if (users !== undefined) {
    report.add(entryOf("adminAuth", adminAuth, "taken_over", "adminAuth"), ["adminAuth"], users);
  }
  failures.forEach((entry) => report.add(entry));
}

/** Removes what the service would not accept, which the report then says. */
async function checkConfiguration(report: ImportReport): Promise<void> {
  // The commands of clients do not load it otherwise.
  const { formatOptionPath, OptionsError, parseOptions } = await import("../../options/parse.ts");
  for (let isChanged = true; isChanged;) {
    isChanged = false;
    try {
      parseOptions(report.configuration);
    } catch (error) {
      if (!(error instanceof OptionsError)) {
        throw error;
      }
      for (const { path, message } of error.problems) {
        isChanged = report.reject(path, `${formatOptionPath(path)}: ${message}`) || isChanged;
      }
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

async function readJson(file: string): Promise<unknown> {
  const bytes = await readOptional(file);
  return bytes && parseSource(file, bytes).value;
}

async function list(folder: string): Promise<string[]> {
  try {
    return await readdir(folder);
  } catch (error) {
    throw explainReadError(error, folder);
  }
}

function readOptional(file: string): Promise<Buffer | undefined> {
  return readIfExists(file).catch((error: unknown) => {
    throw explainReadError(error, file);
  });
}
