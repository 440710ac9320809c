import { readdir, realpath } from "node:fs/promises";
import { basename, dirname, extname, join, relative, resolve, sep } from "node:path";
import { CliFailure } from "../failure.ts";
import { explainReadError, readIfExists } from "../flow-files/read-file.ts";
import { parseSource } from "../flow-files/source.ts";
import type { Secret } from "./credentials.ts";
import type { ImportReport } from "./report.ts";
import { type Code, memberOf, parseSettings, type Setting, textOf } from "./settings-file.ts";

/** The files that Node-RED reads its flows and credentials from. */
export type ActiveFlows = {
  /** The user folder, also if the folder of one of its projects was specified. */
  readonly userFolder: string;
  /** Undefined: the user folder has no settings.js. */
  readonly settings: Setting | undefined;
  readonly flowsFile: string;
  /** The first that exists is the one. */
  readonly credentialsFiles: readonly string[];
  /** Undefined: the flows are not those of a project. */
  readonly project: Project | undefined;
};

/** A project of Node-RED's editor: a git repository with flows. */
type Project = {
  readonly name: string;
  readonly folder: string;
  /** The contents of its package.json. */
  readonly manifest: unknown;
  readonly secret: Secret | undefined;
};

export type FlowsLocation = {
  /** A user folder, or the folder of a project. */
  readonly folder: string;
  /** Has precedence over the file of the settings, as on Node-RED's command line. Relative to the folder. */
  readonly flowFile?: string | undefined;
};

/**
 * Finds the flows that Node-RED runs: those of the active project, if projects are on, and otherwise the file of its settings. Runs no code of
 * the folder. Throws a CliFailure if they can't be found, or are outside of the folder.
 */
export async function findActiveFlows({ folder, flowFile }: FlowsLocation, report: ImportReport): Promise<ActiveFlows> {
  const owner = await findOwner(folder);
  const userFolder = owner ?? folder;
  const settings = await readSettings(userFolder);
  const registry = await readProjects(userFolder);
  if (flowFile !== undefined) {
    const flowsFile = resolve(folder, flowFile);
    const project = owner === undefined ? undefined : await findSpecified(folder, registry);
    return { userFolder, settings, flowsFile, credentialsFiles: credentialsBeside(flowsFile, userFolder), project };
  }
  if (owner !== undefined || (settings === undefined && (await isProject(folder)))) {
    const project = await findSpecified(folder, registry);
    if (owner !== undefined && registry.active !== project.name) {
      const detail = "it is imported as specified, but is not the project that Node-RED runs";
      report.add({ name: "projects", file: nameIn(userFolder, folder), outcome: "changed", detail });
    }
    return { userFolder, settings, ...(await findFiles(project)), project };
  }
  const project = await findProject(userFolder, settings, registry, report);
  if (project !== undefined) {
    return { userFolder, settings, ...(await findFiles(project)), project };
  }
  const flowsFile = await findFlowsFile(userFolder, settings);
  return { userFolder, settings, flowsFile, credentialsFiles: credentialsBeside(flowsFile, userFolder), project };
}

/** The path of a file as the report has it. */
export function nameIn(folder: string, file: string): string {
  const path = relative(folder, file);
  return path.startsWith("..") ? basename(file) : path;
}

export async function readJson(file: string): Promise<unknown> {
  const bytes = await readOptional(file);
  return bytes && parseSource(file, bytes).value;
}

export function readOptional(file: string): Promise<Buffer | undefined> {
  return readIfExists(file).catch((error: unknown) => {
    throw explainReadError(error, file);
  });
}

async function readSettings(folder: string): Promise<Setting | undefined> {
  const file = join(folder, "settings.js");
  const bytes = await readOptional(file);
  return bytes && parseSettings(file, bytes.toString("utf8"));
}

/** The file in which Node-RED keeps its projects. */
type ProjectRegistry = {
  readonly active: string | undefined;
  readonly projects: Readonly<Record<string, { readonly credentialSecret?: unknown; readonly rootPath?: unknown }>>;
};

const registryName = ".config.projects.json";

/** Before it had a file of its own, it was a section of .config.json, whose form some tools keep. */
async function readProjects(userFolder: string): Promise<ProjectRegistry> {
  const content = fieldsOf(
    (await readJson(join(userFolder, registryName))) ?? (await readJson(join(userFolder, ".config.json"))),
  );
  const section = "activeProject" in content ? content : fieldsOf(content["projects"]);
  const { activeProject, projects } = section;
  return {
    active: typeof activeProject === "string" && activeProject !== "" ? activeProject : undefined,
    projects: fieldsOf(projects) as ProjectRegistry["projects"],
  };
}

/** The user folder that has a folder as one of its projects, by Node-RED's default path; undefined: none is known. */
async function findOwner(folder: string): Promise<string | undefined> {
  const projects = dirname(resolve(folder));
  const userFolder = dirname(projects);
  const isOwner =
    basename(projects) === "projects" && (await readOptional(join(userFolder, registryName))) !== undefined;
  return isOwner ? userFolder : undefined;
}

/** True if the package.json of a folder names flows, as that of a project does. */
async function isProject(folder: string): Promise<boolean> {
  return settingsOf(await readJson(join(folder, "package.json")))["flowFile"] !== undefined;
}

function findSpecified(folder: string, registry: ProjectRegistry): Promise<Project> {
  return readProject(basename(resolve(folder)), folder, registry);
}

/** The project that Node-RED runs; undefined: none. */
async function findProject(
  userFolder: string,
  settings: Setting | undefined,
  registry: ProjectRegistry,
  report: ImportReport,
): Promise<Project | undefined> {
  const editorTheme = memberOf(settings, "editorTheme");
  const section = memberOf(editorTheme, "projects");
  const state = [editorTheme, section, memberOf(section, "enabled")].find((each) => each?.kind === "code");
  const isEnabled = isTrue(memberOf(section, "enabled"));
  const projectsDir = await findProjectsDir(userFolder, isEnabled ? memberOf(section, "path") : undefined);
  const names = await listFolders(projectsDir);
  const named = textOf(memberOf(settings, "flowFile"));
  const isNamed = named !== undefined && (names.includes(named) || Object.hasOwn(registry.projects, named));
  const active = isNamed ? named : registry.active;
  if (state?.kind === "code" && active !== undefined) {
    throw new CliFailure(explainUnknown(userFolder, state, join(projectsDir, active)));
  }
  const fileOf = (name: string): string => nameIn(userFolder, join(projectsDir, name));
  const own = isEnabled ? active : undefined;
  for (const name of names.filter((each) => each !== own)) {
    const detail =
      !isEnabled && name === active
        ? "projects are off (editorTheme.projects.enabled): if NODE_RED_ENABLE_PROJECTS turns them on, import this folder instead"
        : "it is not the active project: import this folder to deploy its flows";
    report.add({ name: "projects", file: fileOf(name), outcome: "not_needed", detail });
  }
  if (own === undefined) {
    return undefined;
  }
  const folder = join(projectsDir, own);
  await assertInside(
    userFolder,
    folder,
    `${join(userFolder, registryName)}: activeProject`,
    "specify the folder of the project",
  );
  const project = await readProject(own, folder, registry);
  const detail = "its flows are deployed, since it is the active project; its git history remains where it is";
  report.add({ name: "projects", file: fileOf(own), outcome: "taken_over", detail });
  await reportUnused(userFolder, isNamed ? undefined : named, own, report);
  return project;
}

/** The flows that Node-RED ran before it had projects, and does not run any more. */
async function reportUnused(
  userFolder: string,
  named: string | undefined,
  project: string,
  report: ImportReport,
): Promise<void> {
  const found = named === undefined ? findNames(await list(userFolder)) : [named];
  for (const name of found) {
    const file = resolve(userFolder, name);
    if ((await readOptional(file)) !== undefined) {
      const detail = `Node-RED runs the project ${JSON.stringify(project)} instead: to deploy this file, specify it with --flow-file`;
      report.add({ name: "flows", file: nameIn(userFolder, file), outcome: "not_needed", detail });
    }
  }
}

function explainUnknown(userFolder: string, { line, reason }: Code, projectFolder: string): string {
  return (
    `${join(userFolder, "settings.js")}:${line}: whether projects are on: ${reason}: specify the folder of the project, ${projectFolder}, ` +
    "or, if they are off, the file of flows with --flow-file"
  );
}

/** `path` is the setting `editorTheme.projects.path`. */
async function findProjectsDir(userFolder: string, path: Setting | undefined): Promise<string> {
  const name = textOf(path);
  if (path === undefined || name === "") {
    return join(userFolder, "projects");
  }
  const where = `${join(userFolder, "settings.js")}:${path.line}: editorTheme.projects.path`;
  if (name === undefined) {
    const reason = path.kind === "code" ? path.reason : "it is not text";
    throw new CliFailure(`${where}: ${reason}: specify the folder of the project in place of the user folder`);
  }
  const folder = resolve(userFolder, name);
  await assertInside(userFolder, folder, where, "specify the folder of the project");
  return folder;
}

/** Throws a CliFailure for a project of which Node-RED runs no flows. */
async function readProject(name: string, folder: string, registry: ProjectRegistry): Promise<Project> {
  const known = Object.hasOwn(registry.projects, name) ? registry.projects[name] : undefined;
  const { rootPath = "", credentialSecret } = fieldsOf(known);
  const root = typeof rootPath === "string" ? join(folder, rootPath) : folder;
  await assertInside(folder, root, `${registryName}: rootPath`);
  const path = join(root, "package.json");
  const manifest = await readJson(path);
  if (manifest === undefined) {
    throw new CliFailure(
      `${path}: there is no such file, without which Node-RED runs no flows of a project: restore it, or specify the file of flows with --flow-file`,
    );
  }
  if (typeof settingsOf(manifest)["flowFile"] !== "string") {
    throw new CliFailure(
      `${path}: node-red.settings.flowFile: names no file of flows: complete it, or specify the file with --flow-file`,
    );
  }
  const secret =
    typeof credentialSecret === "string" && credentialSecret !== ""
      ? { value: credentialSecret, origin: `the credentialSecret of the project in ${registryName}` }
      : undefined;
  return { name, folder: root, manifest, secret };
}

async function findFiles({ folder, manifest }: Project): Promise<Pick<ActiveFlows, "flowsFile" | "credentialsFiles">> {
  const { flowFile, credentialsFile } = settingsOf(manifest);
  const find = async (name: string, value: unknown): Promise<string> => {
    const file = resolve(folder, String(value));
    await assertInside(folder, file, `${join(folder, "package.json")}: node-red.settings.${name}`);
    return file;
  };
  const flowsFile = await find("flowFile", flowFile);
  return {
    flowsFile,
    credentialsFiles:
      typeof credentialsFile === "string"
        ? [await find("credentialsFile", credentialsFile)]
        : credentialsBeside(flowsFile, dirname(flowsFile)),
  };
}

function settingsOf(manifest: unknown): Readonly<Record<string, unknown>> {
  return fieldsOf(fieldsOf(fieldsOf(manifest)["node-red"])["settings"]);
}

function credentialsBeside(flowsFile: string, userFolder: string): string[] {
  const extension = extname(flowsFile);
  const name = `${basename(flowsFile, extension)}_cred${extension}`;
  return [...new Set([join(userFolder, name), join(dirname(flowsFile), name)])];
}

async function findFlowsFile(folder: string, settings: Setting | undefined): Promise<string> {
  const setting = memberOf(settings, "flowFile");
  const name = textOf(setting);
  if (name !== undefined) {
    const file = resolve(folder, name);
    await assertInside(folder, file, `${join(folder, "settings.js")}:${setting?.line}: flowFile`);
    return file;
  }
  if (setting?.kind === "code") {
    throw new CliFailure(
      `${join(folder, "settings.js")}:${setting.line}: flowFile: ${setting.reason}: specify the file with --flow-file`,
    );
  }
  const names = await list(folder);
  const found = findNames(names);
  const [only] = found;
  if (only === undefined) {
    const [project] = await listFolders(join(folder, "projects"));
    const hint =
      project === undefined
        ? "specify the user folder of Node-RED, usually ~/.node-red"
        : `specify the folder of a project, such as ${join(folder, "projects", project)}`;
    throw new CliFailure(`${folder}: has no flows.json and no flows_<host name>.json: ${hint}`);
  }
  if (found.length > 1) {
    throw new CliFailure(`${folder}: has several files of flows (${found.join(", ")}): specify one with --flow-file`);
  }
  return join(folder, only);
}

/** The names that Node-RED gives to a file of flows without a setting. */
function findNames(names: readonly string[]): string[] {
  return names.includes("flows.json")
    ? ["flows.json"]
    : names.filter((each) => /^flows_.*\.json$/.test(each) && !each.endsWith("_cred.json"));
}

/** Settings of others must not make a deployment of any file of this user. */
async function assertInside(
  folder: string,
  file: string,
  setting: string,
  remedy = "specify the file with --flow-file",
): Promise<void> {
  const [root, target] = await Promise.all(
    // Files that do not exist are reported when they are read.
    [folder, file].map((path) => realpath(path).catch(() => resolve(path))),
  );
  if (target !== root && target?.startsWith(`${root}${sep}`) !== true) {
    throw new CliFailure(`${setting}: leads out of ${folder}: if that is intended, ${remedy}`);
  }
}

async function list(folder: string): Promise<string[]> {
  try {
    return await readdir(folder);
  } catch (error) {
    throw explainReadError(error, folder);
  }
}

async function listFolders(folder: string): Promise<string[]> {
  const entries = await readdir(folder, { withFileTypes: true }).catch(() => []);
  return entries.filter((entry) => entry.isDirectory() && !entry.name.startsWith(".")).map(({ name }) => name);
}

function isTrue(setting: Setting | undefined): boolean {
  return setting?.kind === "value" && setting.value === true;
}

function fieldsOf(value: unknown): Readonly<Record<string, unknown>> {
  return Object(value) as Record<string, unknown>;
}
