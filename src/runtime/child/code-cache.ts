import { hash } from "node:crypto";
import { closeSync, fstatSync, readFileSync, writeFileSync } from "node:fs";
import Module from "node:module";
import { dirname, join } from "node:path";
import { Script, constants } from "node:vm";
import { isFields } from "../../base/fields.ts";
import { codeFd } from "../messages.ts";

/** V8's compiled code of the CommonJS modules that are loaded until `end` is called, and what they require. */
export interface CodeCache {
  /** Whether it is being made of the modules that are loaded, so that all have to be. */
  readonly isRecording: boolean;
  /** Must be called before flows or their modules can write to the file descriptor, which only is open when recording. */
  end(): void;
}

type Compile = (this: CommonJsModule, content: string, filename: string, format?: string) => unknown;

type CommonJsModule = InstanceType<typeof Module> & { _compile: Compile };

/** Undocumented parts of Node.js, which packages that transform modules use as well. */
type Internals = {
  new (filename: string, parent: CommonJsModule): CommonJsModule;
  readonly prototype: CommonJsModule;
  readonly _cache: Record<string, CommonJsModule | undefined>;
  readonly _extensions: object;
  readonly _resolveFilename: (request: string, parent: object, isMain: boolean, options?: object) => string;
  readonly _resolveLookupPaths: (request: string, parent: object) => string[] | null;
  readonly _nodeModulePaths: (folder: string) => string[];
};

const internals = Module as unknown as Internals;

/**
 * Opens the cache of the parent (../code-cache-file.ts): modules are compiled from the file, or recorded in it if it is empty.
 *
 * Node's own compile cache can't be used, because reading it requires the permission to write it.
 */
export function openCodeCache(): CodeCache {
  const stat = fstatSync(codeFd);
  if (!stat.isFile() || !hasInternals()) {
    return { isRecording: false, end() {} };
  }
  const compile = internals.prototype._compile;
  return stat.size > 0 ? readCache(compile) : recordCache(compile);
}

/** Without them, modules are loaded as usual. */
function hasInternals(): boolean {
  const { prototype, _cache, _extensions, _resolveFilename, _resolveLookupPaths, _nodeModulePaths } = internals;
  const functions: unknown[] = [prototype._compile, _resolveFilename, _resolveLookupPaths, _nodeModulePaths];
  return functions.every((each) => typeof each === "function") && isFields(_cache) && isFields(_extensions);
}

function recordCache(compile: Compile): CodeCache {
  const recorded = new Map<string, Recorded>();
  const record = (content: string, filename: string): Script | undefined => {
    const script = createScript(content, filename);
    if (script !== undefined) {
      recorded.set(filename, { digest: digestOf(content), script, required: new Map() });
    }
    return script;
  };
  internals.prototype._compile = compileWith(record, compile, (module) => (id) => {
    const exported: unknown = module.require(id);
    const { required } = recorded.get(module.filename) ?? {};
    if (required !== undefined && !Module.isBuiltin(id)) {
      required.set(id, internals._resolveFilename(id, module, false));
    }
    return exported;
  });
  return {
    isRecording: true,
    end() {
      internals.prototype._compile = compile;
      writeFileSync(codeFd, formatCache(recorded));
      closeSync(codeFd);
    },
  };
}

function readCache(compile: Compile): CodeCache {
  const cached = parseCache(readFileSync(codeFd));
  closeSync(codeFd);
  if (cached.size === 0) {
    return { isRecording: false, end() {} };
  }
  const find = (content: string, filename: string): Script | undefined => {
    const entry = cached.get(filename);
    return entry?.digest === digestOf(content) ? createScript(content, filename, entry.code) : undefined;
  };
  const requireOf = (module: CommonJsModule) => {
    const required = cached.get(module.filename)?.required;
    return (id: string): unknown => {
      const filename = required?.get(id);
      return filename === undefined || !cached.has(filename) ? module.require(id) : load(filename, module);
    };
  };
  /** Loads a module without a search for its file, and for the manifest that has its format. */
  const load = (filename: string, parent: CommonJsModule): unknown => {
    const loaded = internals._cache[filename];
    if (loaded !== undefined) {
      return loaded.exports;
    }
    const content = readFileSync(filename, "utf8");
    const script = find(content, filename);
    if (script === undefined) {
      return parent.require(filename);
    }
    const module = new internals(filename, parent);
    module.filename = filename;
    module.paths = internals._nodeModulePaths(dirname(filename));
    internals._cache[filename] = module;
    let isLoaded = false;
    try {
      run(script, module, requireOf(module));
      module.loaded = true;
      isLoaded = true;
    } finally {
      if (!isLoaded) {
        delete internals._cache[filename];
      }
    }
    return module.exports;
  };
  const compileCached = compileWith(find, compile, requireOf);
  internals.prototype._compile = compileCached;
  return {
    isRecording: false,
    end() {
      cached.clear();
      // Added modules may have replaced it.
      if (internals.prototype._compile === compileCached) {
        internals.prototype._compile = compile;
      }
    },
  };
}

type RequireOf = (module: CommonJsModule) => (id: string) => unknown;

/** `find` returns undefined for what Node has to compile. */
function compileWith(
  find: (content: string, filename: string) => Script | undefined,
  compile: Compile,
  requireOf: RequireOf,
): Compile {
  return function (content, filename, format) {
    const isCommonJs = (format === undefined || format === "commonjs") && !content.startsWith("#!");
    const script = isCommonJs ? find(content, filename) : undefined;
    return script === undefined ? compile.call(this, content, filename, format) : run(script, this, requireOf(this));
  };
}

/** Undefined: Node reports the error, or finds out that it is an ES module. */
function createScript(content: string, filename: string, cachedData?: Buffer): Script | undefined {
  try {
    return new Script(`${prefix}${content}\n})`, {
      filename,
      lineOffset: -1,
      importModuleDynamically: constants.USE_MAIN_CONTEXT_DEFAULT_LOADER,
      ...(cachedData && { cachedData }),
    });
  } catch {
    return undefined;
  }
}

/** What Node puts around a module, on a line of its own so that the positions in it are those of the file. */
const prefix = "(function (exports, require, module, __filename, __dirname) {\n";

function run(script: Script, module: CommonJsModule, load: (id: string) => unknown): unknown {
  const call = script.runInThisContext() as (...parameters: unknown[]) => unknown;
  const { exports, filename } = module;
  return call.call(exports, exports, completeRequire(load, module), module, filename, dirname(filename));
}

/** The function `require` of a module. */
function completeRequire(load: (id: string) => unknown, module: CommonJsModule): object {
  const resolve = (request: string, options?: object): string =>
    internals._resolveFilename(request, module, false, options);
  const paths = (request: string): string[] | null => internals._resolveLookupPaths(request, module);
  return Object.assign(load, {
    resolve: Object.assign(resolve, { paths }),
    main: undefined,
    extensions: internals._extensions,
    cache: internals._cache,
  });
}

type Recorded = {
  readonly digest: string;
  readonly script: Script;
  /** The files of what it requires. */
  readonly required: Map<string, string>;
};

type Cached = {
  readonly digest: string;
  readonly code: Buffer;
  readonly required: ReadonlyMap<string, string> | undefined;
};

/** An entry of the list at the beginning of the content. The code of the modules follows in this order. */
type Entry = readonly [
  filename: string,
  digest: string,
  bytes: number,
  required: readonly (readonly [id: string, filename: string])[],
];

type List = {
  readonly entries: readonly Entry[];
  /** The manifests of the packages, which decide what is required. */
  readonly manifests: readonly string[];
  readonly manifestsDigest: string;
};

const digestBytes = 32;
const lengthBytes = 4;

function formatCache(recorded: ReadonlyMap<string, Recorded>): Buffer {
  // Only now, with the functions that were compiled when they were called.
  const codes = recorded
    .values()
    .map(({ script }) => script.createCachedData())
    .toArray();
  const entries = [...recorded].map(([filename, { digest, required }], at): Entry => [
    filename,
    digest,
    codes[at]?.length ?? 0,
    [...required],
  ]);
  const manifests = [...new Set(entries.map(([filename]) => manifestOf(filename)))];
  const list = Buffer.from(JSON.stringify({ entries, manifests, manifestsDigest: digestOfFiles(manifests) }));
  const length = Buffer.alloc(lengthBytes);
  length.writeUInt32BE(list.length);
  const content = Buffer.concat([length, list, ...codes]);
  return Buffer.concat([hash("sha256", content, "buffer"), content]);
}

/** Empty if the file is damaged. */
function parseCache(file: Buffer): Map<string, Cached> {
  const cached = new Map<string, Cached>();
  const content = file.subarray(digestBytes);
  if (!hash("sha256", content, "buffer").equals(file.subarray(0, digestBytes))) {
    return cached;
  }
  let at = lengthBytes + content.readUInt32BE(0);
  const { entries, manifests, manifestsDigest } = JSON.parse(content.toString("utf8", lengthBytes, at)) as List;
  const isCurrent = digestOfFiles(manifests) === manifestsDigest;
  for (const [filename, digest, bytes, required] of entries) {
    const code = content.subarray(at, at + bytes);
    cached.set(filename, { digest, code, required: isCurrent ? new Map(required) : undefined });
    at += bytes;
  }
  return cached;
}

/** Of the package that contains the file. */
function manifestOf(filename: string): string {
  const [folder = dirname(filename)] = /^.*[\\/]node_modules[\\/](?:@[^\\/]+[\\/])?[^\\/]+/s.exec(filename) ?? [];
  return join(folder, "package.json");
}

/** A file that does not exist is as an empty one. */
function digestOfFiles(paths: readonly string[]): string {
  const contents = paths.map((path) => {
    try {
      return readFileSync(path, "utf8");
    } catch {
      return "";
    }
  });
  return digestOf(contents.join("\0"));
}

function digestOf(text: string): string {
  return hash("sha256", text);
}
