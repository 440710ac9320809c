import { hash } from "node:crypto";
import { closeSync, fstatSync, readFileSync, writeFileSync } from "node:fs";
import Module from "node:module";
import { dirname } from "node:path";
import { Script, constants } from "node:vm";
import { codeFd } from "../messages.ts";

/** V8's compiled code of the CommonJS modules that are loaded until `end` is called. */
export interface CodeCache {
  /** Must be called before flows or their modules can write to the file descriptor. */
  end(): void;
}

type Compile = (this: CommonJsModule, content: string, filename: string, format?: string) => unknown;

type CommonJsModule = InstanceType<typeof Module> & { _compile: Compile };

/** Undocumented parts of Node.js, which packages that transform modules use as well. */
type Internals = {
  readonly prototype: CommonJsModule;
  readonly _cache: object;
  readonly _extensions: object;
  _resolveFilename(request: string, parent: object, isMain: boolean, options?: object): string;
  _resolveLookupPaths(request: string, parent: object): string[] | null;
};

/**
 * Opens the cache of the parent (../code-cache.ts): modules are compiled from the file, or recorded in it if it is empty.
 *
 * Node's own compile cache can't be used, because reading it requires the permission to write it.
 */
export function openCodeCache(): CodeCache {
  const stat = fstatSync(codeFd);
  const internals = Module as unknown as Internals;
  const compile = internals.prototype._compile as Compile | undefined;
  if (!stat.isFile() || compile === undefined) {
    return { end() {} };
  }
  const cached = stat.size > 0 ? parseCache(readFileSync(codeFd)) : undefined;
  const recorded: Recorded[] = [];

  /** Undefined: Node has to compile it. */
  function load(content: string, filename: string): Script | undefined {
    const digest = hash("sha256", content);
    const entry = cached?.get(filename);
    if (cached !== undefined && entry?.digest !== digest) {
      return undefined;
    }
    try {
      const script = new Script(`${prefix}${content}\n})`, {
        filename,
        lineOffset: -1,
        importModuleDynamically: constants.USE_MAIN_CONTEXT_DEFAULT_LOADER,
        ...(entry && { cachedData: entry.code }),
      });
      if (cached === undefined) {
        recorded.push({ filename, digest, script });
      }
      return script;
    } catch {
      // Node reports the error, or finds out that it is an ES module.
      return undefined;
    }
  }

  internals.prototype._compile = function (content, filename, format) {
    const isCommonJs = (format === undefined || format === "commonjs") && !content.startsWith("#!");
    const script = isCommonJs ? load(content, filename) : undefined;
    if (script === undefined) {
      return compile.call(this, content, filename, format);
    }
    const run = script.runInThisContext() as (...parameters: unknown[]) => unknown;
    const { exports } = this;
    return run.call(exports, exports, createRequireOf(this, internals), this, filename, dirname(filename));
  };
  return {
    end() {
      internals.prototype._compile = compile;
      if (cached === undefined) {
        writeFileSync(codeFd, formatCache(recorded));
      }
      closeSync(codeFd);
    },
  };
}

/** What Node puts around a module, on a line of its own so that the positions in it are those of the file. */
const prefix = "(function (exports, require, module, __filename, __dirname) {\n";

/** The function `require` of a module. */
function createRequireOf(module: CommonJsModule, internals: Internals): object {
  const resolve = (request: string, options?: object): string =>
    internals._resolveFilename(request, module, false, options);
  const paths = (request: string): string[] | null => internals._resolveLookupPaths(request, module);
  return Object.assign((id: string): unknown => module.require(id), {
    resolve: Object.assign(resolve, { paths }),
    main: undefined,
    extensions: internals._extensions,
    cache: internals._cache,
  });
}

type Recorded = { readonly filename: string; readonly digest: string; readonly script: Script };

type Cached = { readonly digest: string; readonly code: Buffer };

/** An entry of the list at the beginning of the content. The code of the modules follows in this order. */
type Entry = readonly [filename: string, digest: string, bytes: number];

const digestBytes = 32;
const lengthBytes = 4;

function formatCache(recorded: readonly Recorded[]): Buffer {
  // Only now, with the functions that were compiled when they were called.
  const codes = recorded.map(({ script }) => script.createCachedData());
  const entries = recorded.map(({ filename, digest }, at): Entry => [filename, digest, codes[at]?.length ?? 0]);
  const list = Buffer.from(JSON.stringify(entries));
  const length = Buffer.alloc(lengthBytes);
  length.writeUInt32BE(list.length);
  const content = Buffer.concat([length, list, ...codes]);
  return Buffer.concat([hash("sha256", content, "buffer"), content]);
}

/** Empty if the file is damaged. */
function parseCache(file: Buffer): ReadonlyMap<string, Cached> {
  const cached = new Map<string, Cached>();
  const content = file.subarray(digestBytes);
  if (!hash("sha256", content, "buffer").equals(file.subarray(0, digestBytes))) {
    return cached;
  }
  let at = lengthBytes + content.readUInt32BE(0);
  const entries = JSON.parse(content.toString("utf8", lengthBytes, at)) as readonly Entry[];
  for (const [filename, digest, bytes] of entries) {
    cached.set(filename, { digest, code: content.subarray(at, at + bytes) });
    at += bytes;
  }
  return cached;
}
