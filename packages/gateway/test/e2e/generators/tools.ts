import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync } from "node:fs";
import { cp, readFile, rename, rm } from "node:fs/promises";
import { delimiter, dirname, join } from "node:path";
import { execute, succeed } from "../../../../../test/examples/execute.ts";
import { go } from "../../../../../test/go.ts";
import { hasPython, InstallationError, openPython } from "../../../../../test/examples/python.ts";

export const clients = join(import.meta.dirname, "clients");
export const modules = join(import.meta.dirname, "../../../../../node_modules");

/** A program or a folder, or why there is none. */
type Tool = string | Missing;

export class Missing {
  readonly reason: string;

  constructor(reason: string) {
    this.reason = reason;
  }
}

export type Tools = {
  /** Python with the packages of `clients/python-requirements.txt`. */
  readonly python: Tool;
  /** The jar of openapi-generator, which Java runs. */
  readonly openapiGenerator: Tool;
  /** A folder with the jars of `clients/openapi-generator-java/pom.xml`. */
  readonly jars: Tool;
  readonly go: Tool;
  /** A folder with the packages of `clients/package.json` in `node_modules`. */
  readonly npm: Tool;
};

/** Finds the tools. Packages are installed in folders that are kept for the next run of the tests. */
export async function findTools(): Promise<Tools> {
  const [python, jars, npm] = await Promise.all([installPython(), installJars(), installNpm()]);
  return { python, openapiGenerator: await findJar(python), jars, go: go ?? new Missing("Go is missing"), npm };
}

async function installPython(): Promise<Tool> {
  if (!hasPython) {
    return new Missing("Python's venv is missing");
  }
  try {
    return await openPython(join(clients, "python-requirements.txt"));
  } catch (error) {
    if (error instanceof InstallationError) {
      return new Missing(`the packages of PyPI can't be installed: ${error.message}`);
    }
    throw error;
  }
}

async function findJar(python: Tool): Promise<Tool> {
  if (python instanceof Missing) {
    return python;
  }
  if (!isInstalled("javac")) {
    return new Missing("a JDK is missing");
  }
  const code = "import openapi_generator_cli as package; print(package.__path__[0])";
  return join((await succeed(python, ["-c", code])).trim(), "openapi-generator.jar");
}

async function installJars(): Promise<Tool> {
  const copy = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies";
  return await install(join(clients, "openapi-generator-java/pom.xml"), "mvn", [
    "-q",
    "-B",
    copy,
    "-DoutputDirectory=.",
  ]);
}

async function installNpm(): Promise<Tool> {
  const settings = ["--prefer-offline", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error"];
  return await install(join(clients, "package.json"), "npm", ["install", ...settings]);
}

function isInstalled(command: string): boolean {
  return spawnSync(command, ["--version"], { stdio: "ignore" }).status === 0;
}

/** The folder into which a command has installed the packages of a manifest. */
async function install(manifest: string, command: string, args: readonly string[]): Promise<Tool> {
  const content = await readFile(manifest);
  const name = createHash("sha256").update(content).digest("hex").slice(0, 16);
  const folder = join(modules, ".cache/generators", name);
  if (!existsSync(folder)) {
    if (!isInstalled(command)) {
      return new Missing(`${command} is missing`);
    }
    const part = `${folder}.part`;
    await rm(part, { recursive: true, force: true });
    await cp(manifest, join(part, manifest.endsWith("pom.xml") ? "pom.xml" : "package.json"));
    // With the user's settings of networks and certificates. npm is started by the Node.js that runs the tests.
    const env = { ...process.env, PATH: [dirname(process.execPath), process.env["PATH"]].join(delimiter) };
    const { code, stdout, stderr } = await execute(command, args, { cwd: part, env });
    if (code !== 0) {
      return new Missing(`${command} can't install packages: ${stdout}${stderr}`);
    }
    await rename(part, folder);
  }
  return folder;
}
