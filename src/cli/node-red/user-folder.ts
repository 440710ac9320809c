import { readdir, realpath } from "node:fs/promises";
import { basename, dirname, extname, join, resolve, sep } from "node:path";
import { Document } from "yaml";
import type { Credentials, Node } from "../../../gen/flowgate/v1/flows_pb.ts";
import { parseFlows } from "../../flows/parse-flows.ts";
import { CliFailure } from "../failure.ts";
import { checkFlows } from "../flow-files/check-flows.ts";
import { explainReadError, readFlowFile, readIfExists } from "../flow-files/read-file.ts";
import { parseSource } from "../flow-files/source.ts";
import { formatYaml } from "../yaml.ts";
import { readCredentials, type Secret } from "./credentials.ts";
import { findModules, type Module } from "./required-modules.ts";
import { findSandboxNeeds } from "./sandbox-needs.ts";
import { memberOf, parseSettings, type Setting, textOf } from "./settings-file.ts";
import { readAdminAuth } from "./users.ts";

/** What Flowgate takes over from a user folder of Node-RED. */
export type NodeRedImport = {
  readonly flowsFile: string;
  readonly flows: readonly Node[];
  /** Undefined if there is no credentials file. */
  readonly credentials: Credentials | undefined;
  /** A part of flowgate.yaml with the users; undefined if there are none. */
  readonly users: string | undefined;
  /** A part of flowgate.yaml that permits what the flows use and the sandbox denies; undefined if they use nothing such. */
  readonly permissions: string | undefined;
  /** To be installed before the flows can run. */
  readonly modules: readonly Module[];
  /** What can't be imported, and why. */
  readonly notes: readonly string[];
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
  const notes: string[] = [];
  const report = (name: string, { line }: Setting, reason: string): void => {
    notes.push(`${join(folder, "settings.js")}:${line}: ${name} can't be imported, because ${reason}`);
  };
  const settings = await readSettings(folder);
  const flowsFile = flowFile === undefined ? await findFlowsFile(folder, settings) : resolve(folder, flowFile);
  const { flows } = checkFlows(await readFlowFile(flowsFile));
  const nodes = parseFlows(flows).flows;

  const imported = await importCredentials(folder, flowsFile, settings, {
    credentialSecret,
    types: new Map(nodes.map(({ id, type }) => [id, type])),
  });
  notes.push(...(imported?.notes ?? []));
  const adminAuth = memberOf(settings, "adminAuth");
  const users = adminAuth && readAdminAuth(adminAuth, report);
  reportSettings(settings, report);
  const needs = findSandboxNeeds(nodes);
  notes.push(...needs.notes, ...(await reportContext(folder)));
  return {
    flowsFile,
    flows,
    credentials: imported?.credentials,
    users: users && formatYaml(new Document({ adminAuth: users }, { aliasDuplicateObjects: false })),
    permissions: needs.configuration,
    modules: findModules(
      nodes,
      await readJson(join(folder, "package.json")),
      await readJson(join(folder, ".config.nodes.json")),
    ),
    notes,
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

/** Settings that flows may depend on, and that Flowgate does not take over. */
const otherSettings: ReadonlyMap<string, string> = new Map([
  [
    "functionGlobalContext",
    "Flowgate's flows get no values from the configuration: use environment variables, or load modules in function nodes",
  ],
  ["contextStorage", "context is kept in memory: use a node that stores values"],
  ["httpNodeRoot", "HTTP-in nodes are served at /: change their URLs, or the path in a proxy"],
  ["httpNodeAuth", "HTTP-in nodes are not protected by Flowgate: use a proxy"],
  ["httpNodeMiddleware", "it is code"],
  ["httpStatic", "Flowgate serves no files: use a web server"],
  ["https", "it has other names: see tls in docs/configuration.md"],
  ["nodesDir", "nodes are loaded from modules only: make a module of them"],
]);

function reportSettings(
  settings: Setting | undefined,
  report: (name: string, setting: Setting, reason: string) => void,
): void {
  if (settings?.kind === "code") {
    report("settings", settings, settings.reason);
  }
  for (const [name, reason] of otherSettings) {
    const setting = memberOf(settings, name);
    if (setting !== undefined && !(setting.kind === "object" && setting.members.size === 0)) {
      report(name, setting, reason);
    }
  }
  const secret = memberOf(settings, "credentialSecret");
  if (secret?.kind === "code") {
    report("credentialSecret", secret, secret.reason);
  }
}

/** The files of Node-RED's context store "localfilesystem": a folder for each tab and one for global values. */
async function reportContext(folder: string): Promise<string[]> {
  const context = join(folder, "context");
  const names = await readdir(context, { recursive: true }).catch(() => []);
  const files = names.filter((name) => extname(name) === ".json").toSorted();
  const found = await Promise.all(
    files.map(async (name) => ({ name, keys: Object.keys(Object(await readJson(join(context, name))) as object) })),
  );
  return found
    .filter(({ keys }) => keys.length > 0)
    .map(
      ({ name, keys }) =>
        `${join(context, name)}: ${keys.map((key) => JSON.stringify(key)).join(", ")} can't be imported, because context is kept in memory: set these values by a flow, for example with an inject node that runs once`,
    );
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
