import { lstat, readdir, readFile, rename } from "node:fs/promises";
import { join, sep } from "node:path";
import { hasCode } from "@flowgate/base/error-code";
import { isFields } from "@flowgate/base/fields";
import type { ContextStorage, ContextStoreOptions } from "../flow-settings.ts";
import { type NodeRedContextStore, DatabaseContext, type MemoryStore, type SentValue } from "./context-database.ts";

/** Not documented: of the store in files. */
type FileStore = NodeRedContextStore & {
  readonly storageBaseDir: string;
  readonly cache?: NodeRedContextStore;
  _flushPendingWrites: () => Promise<unknown>;
};

export type ContextModules = {
  readonly memory: (config: object) => MemoryStore;
  readonly localfilesystem: (config: object) => NodeRedContextStore;
};

type ContextStoresOptions = {
  readonly modules: ContextModules;
  /** The store of a runtime for which none are configured. */
  readonly unconfigured: () => NodeRedContextStore | undefined;
  /** The name of the property that an expression begins with. */
  readonly rootOf: (expression: string) => string;
  /** Sends changes for the store of the service, see `ContextPart`. */
  readonly send: (changes: string) => Promise<void>;
  readonly warn: (message: string) => void;
};

/**
 * The stores of context by their names. Node-RED opens stores when it starts. That is too early here: the process that ran the flows
 * before may still write, and no nodes are known yet, whose values Node-RED would therefore remove.
 */
export class ContextStores {
  readonly #options: ContextStoresOptions;
  readonly #stores = new Map<string, NodeRedContextStore>();
  readonly #opening: (() => Promise<void>)[] = [];

  constructor(options: ContextStoresOptions) {
    this.#options = options;
  }

  /** Returns Node-RED's setting `contextStorage`; undefined without stores. */
  configure(storage: ContextStorage): object | undefined {
    const entries = Object.entries(storage).map(([name, store]) => [
      name,
      typeof store === "string" ? store : { ...store, module: this.#moduleOf(name, store) },
    ]);
    return entries.length === 0 ? undefined : Object.fromEntries(entries);
  }

  /** Reads what is stored, `values` being what the service has. Must be called when no other process writes it, before there are flows. */
  async open(values: Buffer): Promise<void> {
    const stored = values.length === 0 ? [] : (JSON.parse(values.toString()) as [string, ...SentValue][]);
    for (const [name, store] of this.#stores) {
      if (store instanceof DatabaseContext) {
        store.load(stored.flatMap(([each, ...value]) => (each === name ? [value] : [])));
      }
    }
    await Promise.all(this.#opening.map((open) => open()));
  }

  /** The names of the scopes that have values in a store. */
  async scopes(name: string): Promise<readonly string[]> {
    const store = this.#stores.size === 0 ? this.#options.unconfigured() : this.#stores.get(name);
    if (store === undefined) {
      return [];
    }
    const { cache, storageBaseDir } = store as Partial<FileStore>;
    const data = store.data ?? cache?.data;
    return data === undefined ? [...new Set((await listFiles(storageBaseDir ?? "")).map(scopeOf))] : Object.keys(data);
  }

  /** A function that creates the store, as the setting may have instead of the name of a module. */
  #moduleOf(name: string, options: ContextStoreOptions): (config: object) => NodeRedContextStore {
    const create = (config: object): NodeRedContextStore => {
      const store = this.#create(name, options, config);
      this.#stores.set(name, store);
      return store;
    };
    // Node-RED logs it.
    return Object.assign(create, { toString: () => options.module });
  }

  #create(name: string, options: ContextStoreOptions, config: object): NodeRedContextStore {
    const { modules, rootOf, send, warn } = this.#options;
    switch (options.module) {
      case "memory":
        return modules.memory(config);
      case "localfilesystem": {
        const store = modules.localfilesystem(config);
        this.#openLater(name, store as FileStore);
        return store;
      }
      case "database":
        return new DatabaseContext({
          memory: modules.memory({}),
          flushInterval: options.config.flushInterval,
          rootOf,
          send: (values) => send(JSON.stringify(values.map((value) => [name, ...value]))),
          warn,
        });
    }
  }

  #openLater(name: string, store: FileStore): void {
    const [open, clean] = [store.open.bind(store), store.clean.bind(store)];
    store.open = async () => {};
    store.clean = async () => {};
    this.#opening.push(async () => {
      try {
        await setAsideUnreadable(store.storageBaseDir, this.#options.warn);
        await open();
      } catch (error) {
        const { code: reason = String(error) } = error as NodeJS.ErrnoException;
        this.#options.warn(
          `the context store ${name} can't read its folder (${reason}): its values are kept in memory until the flows are started again`,
        );
        store._flushPendingWrites = async () => {};
      }
      store.clean = clean;
    });
  }
}

/** Reading a larger file could end the process at each start. */
const maxFileBytes = 64 * 1024 * 1024;

/** Node-RED would not start with a file that it can't read, which a flow may have written. */
async function setAsideUnreadable(folder: string, warn: (message: string) => void): Promise<void> {
  for (const file of await listFiles(folder)) {
    const path = join(folder, file);
    const problem = await findProblem(path);
    if (problem !== undefined) {
      await rename(path, `${path}.unreadable`);
      warn(
        `the context file ${file} ${problem}: it was renamed to ${file}.unreadable, and its values are not available`,
      );
    }
  }
}

async function findProblem(path: string): Promise<string | undefined> {
  const status = await lstat(path);
  if (!status.isFile()) {
    return "is no regular file";
  }
  if (status.size > maxFileBytes) {
    return `is larger than ${maxFileBytes / 1024 / 1024} MiB`;
  }
  try {
    const text = await readFile(path, "utf8");
    return text === "" || isFields(JSON.parse(text)) ? undefined : "contains no JSON object";
  } catch (error) {
    if (error instanceof SyntaxError) {
      return "contains no JSON";
    }
    throw error;
  }
}

/** The files of a store: `global/global.json`, and `flow.json` and a file for each node in the folder of a flow. */
async function listFiles(folder: string): Promise<string[]> {
  const folders = await readdir(folder, { withFileTypes: true }).catch(noneIfMissing);
  const files = folders
    .filter((entry) => entry.isDirectory() && !entry.name.startsWith("."))
    .map(async ({ name }) => {
      const names = await readdir(join(folder, name)).catch(noneIfMissing);
      return names.filter((each) => each.endsWith(".json")).map((each) => join(name, each));
    });
  return (await Promise.all(files)).flat();
}

function noneIfMissing(error: unknown): [] {
  if (hasCode(error, "ENOENT")) {
    return [];
  }
  throw error;
}

/** The values of a node are stored under its id, a colon, and the id of its flow. */
function scopeOf(file: string): string {
  const [folder = "", name = ""] = file.split(sep);
  if (folder === "global") {
    return "global";
  }
  return name === "flow.json" ? folder : `${name.replace(/\.json$/, "")}:${folder}`;
}
