import { readdir, realpath, stat } from "node:fs/promises";
import { join, relative } from "node:path";
import { CachedRead } from "@flowgate/base/cached-read";
import { readText } from "@flowgate/base/read-text";
import type { Host, NodeModule } from "../host.ts";
import { readCatalog } from "./catalogs.ts";
import { coreModule, type PaletteModule, type PaletteSet, maxTemplateBytes, readPalette } from "./modules.ts";
import { defaultLanguage } from "./template.ts";

type Kind = PaletteSet["kind"];

type Found = { readonly module: PaletteModule; readonly set: PaletteSet };

/** A node set as the editor and `node-red-admin` receive it. */
export type SetInfo = {
  readonly id: string;
  readonly name: string;
  /** Absent for plugins. */
  readonly types?: readonly string[];
  readonly enabled: boolean;
  /** True if its module was added. */
  readonly local: boolean;
  /** Node-RED sends this for modules only. */
  readonly user: false;
  readonly module: string;
  readonly version: string;
  readonly err?: object | string;
};

export type ExampleFolder = { readonly folders: readonly string[]; readonly examples: readonly string[] };

const maxExampleBytes = 4 * 1024 * 1024;

/** Languages are few, but clients can ask for any. */
const maxPages = 8;

/**
 * The installed nodes as the editor shows them. Read at the first request, and again when modules were changed or
 * reading has failed. It comes from files that flows can't write, since whatever it contains runs in the page of the editor.
 */
export class Palette {
  readonly #list: Host["modules"];
  readonly #modules: CachedRead<readonly PaletteModule[], readonly NodeModule[]>;
  /** The templates of all nodes, or plugins, in a language. */
  readonly #pages = new Map<string, Promise<string>>();

  constructor(list: Host["modules"]) {
    this.#list = list;
    this.#modules = new CachedRead((modules) => {
      this.#pages.clear();
      return readPalette(modules);
    });
  }

  async list(kind: Kind): Promise<SetInfo[]> {
    return (await this.#all(kind)).map(toInfo);
  }

  /** The templates of all nodes or plugins that can be used, each after a comment with its id. */
  async page(kind: Kind, language: string): Promise<string> {
    const modules = await this.#read();
    const key = `${kind} ${language}`;
    const page = this.#pages.get(key) ?? createPage(setsOf(modules, kind), kind, language);
    this.#pages.set(key, page);
    page.catch(() => {
      if (this.#pages.get(key) === page) {
        this.#pages.delete(key);
      }
    });
    const [oldest] = this.#pages.keys();
    if (this.#pages.size > maxPages && oldest !== undefined) {
      this.#pages.delete(oldest);
    }
    return page;
  }

  /** The same of one of them; undefined: there is none. */
  async template(kind: Kind, id: string, language: string): Promise<string | undefined> {
    const found = await this.#find(kind, id);
    return found && format(found.set, kind, language);
  }

  async info(kind: Kind, id: string): Promise<SetInfo | undefined> {
    const found = await this.#find(kind, id);
    return found && toInfo(found);
  }

  async moduleInfo(name: string): Promise<object | undefined> {
    const module = (await this.#read()).find((each) => each.name === name);
    if (module === undefined) {
      return undefined;
    }
    const { version, isLocal, isUser } = module;
    const infosOf = (kind: Kind): SetInfo[] => setsOf([module], kind).map(toInfo);
    return { name, version, local: isLocal, user: isUser, nodes: infosOf("node"), plugins: infosOf("plugin") };
  }

  /** The messages of all nodes or plugins, by their ids. Those of Node-RED's own nodes are its namespace `node-red`. */
  async messages(kind: Kind, language: string): Promise<Record<string, object>> {
    const sets = (await this.#all(kind)).map(({ set }) => set).filter(({ catalog }) => catalog !== undefined);
    const entries = sets.map(async (set) => [set.id, await readMessages(set, language)] as const);
    return Object.fromEntries(await Promise.all(entries));
  }

  async messagesOf(id: string, language: string): Promise<object> {
    const found = (await this.#find("node", id)) ?? (await this.#find("plugin", id));
    return found === undefined ? {} : readMessages(found.set, language);
  }

  /** The names of the icons, by module. */
  async icons(): Promise<Record<string, string[]>> {
    const modules = await this.#read();
    const hidden = (files: readonly string[], name: string): boolean =>
      !name.endsWith(".svg") && files.includes(name.replace(/\.\w+$/, ".svg"));
    return Object.fromEntries(
      modules.map(({ name, icons }) => [
        name,
        icons.flatMap(({ files }) => files.filter((each) => !hidden(files, each))),
      ]),
    );
  }

  /** The file of an icon, which may also be one of Node-RED's own. */
  async findIcon(moduleName: string, name: string): Promise<string | undefined> {
    const modules = await this.#read();
    const candidates = [moduleName, coreModule].map((each) => modules.find((module) => module.name === each));
    const folder = candidates.flatMap((module) => module?.icons ?? []).find(({ files }) => files.includes(name));
    return folder && join(folder.dir, name);
  }

  /** A file that a module has for the editor. */
  async findResource(moduleName: string, path: string): Promise<string | undefined> {
    const dir = (await this.#read()).find(({ name }) => name === moduleName)?.resourcesDir;
    const file = dir && (await findWithin(dir, path));
    return file && (await stat(file)).isFile() ? file : undefined;
  }

  /** The names of the modules that have example flows. */
  async modulesWithExamples(): Promise<string[]> {
    return (await this.#read()).filter(({ examplesDir }) => examplesDir !== undefined).map(({ name }) => name);
  }

  /** An example as JSON, by its path without `.json`, or what a folder of examples contains; undefined: there is neither. */
  async findExample(moduleName: string, path: string): Promise<string | ExampleFolder | undefined> {
    const dir = (await this.#read()).find(({ name }) => name === moduleName)?.examplesDir;
    if (dir === undefined) {
      return undefined;
    }
    const file = path === "" ? undefined : await findWithin(dir, `${path}.json`);
    const text = file && (await readText(file, maxExampleBytes));
    return text ?? readFolder(await findWithin(dir, path));
  }

  async #all(kind: Kind): Promise<Found[]> {
    return setsOf(await this.#read(), kind);
  }

  async #find(kind: Kind, id: string): Promise<Found | undefined> {
    return (await this.#all(kind)).find(({ set }) => set.id === id);
  }

  async #read(): Promise<readonly PaletteModule[]> {
    return this.#modules.get(await this.#list());
  }
}

/** The path of what is in a folder, also by its links; undefined: there is nothing, or it is elsewhere. */
async function findWithin(dir: string, path: string): Promise<string | undefined> {
  if (path.includes("\0")) {
    return undefined;
  }
  try {
    const [root, found] = await Promise.all([realpath(dir), realpath(join(dir, path))]);
    return /^\.\.(?:\/|$)/.test(relative(root, found)) ? undefined : found;
  } catch {
    return undefined;
  }
}

async function readFolder(dir: string | undefined): Promise<ExampleFolder | undefined> {
  const entries = dir === undefined ? undefined : await readdir(dir, { withFileTypes: true }).catch(() => undefined);
  return (
    entries && {
      folders: entries.filter((each) => each.isDirectory()).map(({ name }) => name),
      examples: entries
        .filter((each) => each.isFile() && each.name.endsWith(".json"))
        .map(({ name }) => name.replace(/\.json$/, "")),
    }
  );
}

function setsOf(modules: readonly PaletteModule[], kind: Kind): Found[] {
  return modules.flatMap((module) => module.sets.filter((set) => set.kind === kind).map((set) => ({ module, set })));
}

/** As `filterNodeInfo` in @node-red/registry. */
function toInfo({ module, set }: Found): SetInfo {
  const { id, name, types, kind, hasTemplate, hasProgram, err } = set;
  return {
    id,
    name,
    ...(kind === "node" && { types }),
    enabled: set.isEnabled,
    local: module.isLocal,
    user: false,
    module: module.name,
    ...(err !== undefined && { err }),
    ...(kind === "plugin" && { plugins: [], editor: hasTemplate, runtime: hasProgram }),
    version: module.version,
  };
}

async function createPage(found: readonly Found[], kind: Kind, language: string): Promise<string> {
  const used = found.filter(({ set }) => set.isEnabled && set.err === undefined);
  const shown = kind === "node" ? used : used.filter(({ set }) => set.main !== "");
  return (await Promise.all(shown.map(({ set }) => format(set, kind, language)))).map((each) => `\n${each}`).join("");
}

async function format(set: PaletteSet, kind: Kind, language: string): Promise<string> {
  const mark = kind === "node" ? "red-module" : "red-plugin";
  const help = kind === "node" ? await readHelp(set, language) : "";
  return `<!-- --- [${mark}:${set.id}] --- -->\n${set.main}${help}`;
}

/** The help texts are in the template, or in a file for each language. Those of the base language (`de` of `de-CH`) are only looked up in a file. */
async function readHelp({ help, helpDir, helpFile }: PaletteSet, language: string): Promise<string> {
  const readFrom = (name: string): Promise<string | undefined> =>
    readText(join(helpDir, name, helpFile), maxTemplateBytes);
  const [base = language] = language.split("-", 1);
  const text =
    help.get(language) ??
    (await readFrom(language)) ??
    (await readFrom(base)) ??
    help.get(defaultLanguage) ??
    (await readFrom(defaultLanguage));
  return text ?? "";
}

async function readMessages({ catalog }: PaletteSet, language: string): Promise<object> {
  return (catalog && (await readCatalog(catalog, language))) ?? {};
}
