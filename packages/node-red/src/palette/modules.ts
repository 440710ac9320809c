import { glob, stat } from "node:fs/promises";
import { basename, dirname, extname, join } from "node:path";
import { readNames } from "@flowgate/base/directories";
import { readText } from "@flowgate/base/read-text";
import type { NodeModule, NodeSet } from "../host.ts";
import type { CatalogFiles } from "./catalogs.ts";
import { type Template, parseTemplate } from "./template.ts";

/** A file of a module that defines node types or plugins. */
export type PaletteSet = Pick<NodeSet, "kind" | "name" | "isEnabled"> &
  Template & {
    /** `module/name`. */
    readonly id: string;
    /** The folders of its help texts by language are here, below the name of a language. */
    readonly helpDir: string;
    /** The name of the file with its help texts there. */
    readonly helpFile: string;
    /** Undefined: it has the messages of Node-RED's own nodes. */
    readonly catalog: CatalogFiles | undefined;
    /** True if there is an HTML file, and a program for the flow runtime. */
    readonly hasTemplate: boolean;
    readonly hasProgram: boolean;
    /** Why it can't be loaded. */
    readonly err?: object;
  };

export type PaletteModule = Pick<NodeModule, "name" | "version" | "isUser"> & {
  /** True for added modules. */
  readonly isLocal: boolean;
  readonly sets: readonly PaletteSet[];
  readonly icons: readonly { readonly dir: string; readonly files: readonly string[] }[];
  readonly resourcesDir: string | undefined;
  /** Has its example flows; undefined: there are none. */
  readonly examplesDir: string | undefined;
};

/** The name under which Node-RED lists its own nodes. */
export const coreModule = "node-red";

export const maxTemplateBytes = 4 * 1024 * 1024;

/** All templates together: they are kept in memory. */
const maxPaletteBytes = 32 * 1024 * 1024;

/** Reads what the editor shows of modules. What is malformed is left out. */
export async function readPalette(modules: readonly NodeModule[]): Promise<PaletteModule[]> {
  const reader = new PaletteReader();
  const read: PaletteModule[] = [];
  for (const each of modules) {
    // One after another, so that only one template is being parsed.
    read.push(await reader.readModule(each));
  }
  return read;
}

/** Reads modules one after another, within a limit that they share. Types that several define belong to the first one. */
class PaletteReader {
  #bytesLeft = maxPaletteBytes;
  readonly #moduleOfType = new Map<string, string>();

  async readModule({ name, version, dir, isUser, sets }: NodeModule): Promise<PaletteModule> {
    const isLocal = name !== coreModule;
    const read: PaletteSet[] = [];
    for (const set of sets) {
      const found = await this.#readSet(name, set);
      read.push(isLocal ? await this.#addSubflows(name, found, set) : toCoreSet(found, dir, set));
    }
    const iconDirs = isLocal ? sets.map(({ file }) => join(dirname(file), "icons")) : [join(dir, "icons")];
    const resourcesDir = join(dir, "resources");
    return {
      name,
      version,
      isUser,
      isLocal,
      sets: read,
      icons: await readIcons(new Set(iconDirs)),
      resourcesDir: isLocal && (await stats(resourcesDir))?.isDirectory() === true ? resourcesDir : undefined,
      examplesDir: await findExamples(dir),
    };
  }

  async #readSet(module: string, { kind, name, file, isEnabled }: NodeSet): Promise<PaletteSet> {
    const template = file.replace(/\.[^./]+$/, ".html");
    const text = await this.#readTemplate(template);
    const { types, main, help } = parseTemplate(text ?? "");
    const helpDir = join(dirname(file), "locales");
    const helpFile = basename(template);
    const err = kind === "node" ? this.#claimTypes(module, types) : undefined;
    return {
      id: `${module}/${name}`,
      kind,
      name,
      isEnabled,
      types,
      main,
      help,
      helpDir,
      helpFile,
      catalog: { dir: helpDir, file: helpFile.replace(/\.html$/, ".json") },
      hasTemplate: text !== undefined,
      hasProgram: (await stats(file))?.isFile() === true,
      ...(err !== undefined && { err }),
    };
  }

  /** As `registerSubflow` of Node-RED, for which the last one has the template of the set. */
  async #addSubflows(module: string, set: PaletteSet, { kind, file, subflows }: NodeSet): Promise<PaletteSet> {
    if (kind !== "node" || set.err !== undefined) {
      return set;
    }
    if (file.endsWith(".json")) {
      // Node does not load it as a program.
      return { ...set, err: { code: "ERR_IMPORT_ATTRIBUTE_MISSING" } };
    }
    const added = (await subflows()).filter(({ type }) => !set.types.includes(type));
    const types = added.map(({ type }) => type);
    const main = added.at(-1)?.template ?? set.main;
    if (types.length === 0 || main.length > this.#bytesLeft) {
      return set;
    }
    this.#bytesLeft -= main.length;
    const err = this.#claimTypes(module, types);
    return { ...set, types: [...set.types, ...types], main, ...(err !== undefined && { err }) };
  }

  /** Undefined: there is none, or it is too large. */
  async #readTemplate(path: string): Promise<string | undefined> {
    const text = await readText(path, Math.min(maxTemplateBytes, this.#bytesLeft));
    this.#bytesLeft -= text?.length ?? 0;
    return text;
  }

  #claimTypes(module: string, types: readonly string[]): object | undefined {
    const type = types.find((each) => this.#moduleOfType.has(each));
    if (type !== undefined) {
      const details = { type, moduleA: this.#moduleOfType.get(type), moduleB: module };
      return { code: "type_already_registered", details };
    }
    types.forEach((each) => this.#moduleOfType.set(each, module));
    return undefined;
  }
}

/** A set of Node-RED's own nodes, whose texts are in one folder. */
function toCoreSet(set: PaletteSet, dir: string, { file }: NodeSet): PaletteSet {
  return {
    ...set,
    // It has no dialog.
    types: set.name === "junction" ? ["junction"] : set.types,
    helpDir: join(dir, "locales"),
    helpFile: join(basename(dirname(file)), set.helpFile),
    catalog: undefined,
  };
}

const iconTypes: ReadonlySet<string> = new Set([".svg", ".png", ".gif"]);

async function readIcons(dirs: Iterable<string>): Promise<PaletteModule["icons"]> {
  const all = await Promise.all(
    Array.from(dirs, async (dir) => ({
      dir,
      files: (await readNames(dir)).filter((name) => iconTypes.has(extname(name).toLowerCase())),
    })),
  );
  return all.filter(({ files }) => files.length > 0);
}

function stats(path: string) {
  return stat(path).catch(() => undefined);
}

async function findExamples(moduleDir: string): Promise<string | undefined> {
  const dir = join(moduleDir, "examples");
  // A folder without flows is not offered.
  for await (const _ of glob("**/*.json", { cwd: dir })) {
    return dir;
  }
  return undefined;
}
