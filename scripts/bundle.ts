import { mkdir, readFile, readdir, writeFile } from "node:fs/promises";
import { isBuiltin } from "node:module";
import { dirname, join, resolve } from "node:path";
import http from "node:http";
import { type OutputOptions, type Plugin, rolldown } from "rolldown";
import { programs } from "../src/base/program-file.ts";

const root = resolve(import.meta.dirname, "..");

/** The command line and the library. */
const entries = ["cli/main", "index"];

/** The program of the flow runtime, where packages/runtime/src/child-program.ts expects it: below the folder of the common modules. */
const child = { "base/child/main": "packages/runtime/src/child/main.ts" };

export type Bundle = {
  readonly files: readonly { readonly path: string; readonly code: string }[];
  /** The paths of the modules that they contain. */
  readonly modules: readonly string[];
};

/**
 * Bundles the service from its sources, with the packages that it loads. The entry points have the names of their modules. To
 * load fewer files takes half of the CPU time off a start.
 */
export async function bundleService(): Promise<Bundle> {
  const [service, ...started] = await Promise.all([
    // The common modules are in the folder of program-file.ts, as it requires.
    bundle(Object.fromEntries(entries.map((name) => [name, `src/${name}.ts`])), { chunkFileNames: "base/[name].js" }),
    // A thread or process shares no module with those that start it, and would load each of their files for a part of it.
    ...programs.map((name) => bundle({ [name]: `src/${name}.ts` }, { codeSplitting: false })),
    bundle(child, { codeSplitting: false }),
  ]);
  return {
    files: [service, ...started].flatMap(({ files }) => files),
    modules: [...new Set([service, ...started].flatMap(({ modules }) => modules))],
  };
}

/** Bundles the command line without the service, in the same way. */
export function bundleClient(): Promise<Bundle> {
  return bundle({ main: "packages/cli/src/main.ts" }, { chunkFileNames: "[name].js" });
}

/** `input` has the sources by the paths of the results without their extensions. */
async function bundle(input: Readonly<Record<string, string>>, options: OutputOptions): Promise<Bundle> {
  await using build = await rolldown({
    cwd: root,
    input: { ...input },
    platform: "node",
    // The exports of the entry points stay as they are.
    preserveEntrySignatures: "allow-extension",
    // The flow runtime loads its nodes from the disk, and Swagger UI is served from there. pg can do without the last one.
    external: [/^@node-red\//, /^swagger-ui-dist/, "pg-native"],
    plugins: [importHttpWithoutWebSocket, leaveOutUnused],
    logLevel: "warn",
    // The path of each module is in a comment before its code.
    experimental: { attachDebugInfo: "simple" },
  });
  const { output } = await build.generate({
    format: "es",
    entryFileNames: "[name].js",
    comments: { legal: true, jsdoc: false },
    ...options,
  });
  const chunks = output.filter((file) => file.type === "chunk");
  const imported = chunks.flatMap(({ imports, dynamicImports }) => [...imports, ...dynamicImports]);
  const missing = imported.filter((path) => !isBuiltin(path) && !chunks.some(({ fileName }) => fileName === path));
  if (missing.length > 0) {
    throw new Error(`not installed, so that they can't be bundled: ${[...new Set(missing)].join(", ")}`);
  }
  return {
    files: chunks.map(({ fileName: path, code }) => ({ path, code })),
    modules: chunks.flatMap(({ moduleIds }) => moduleIds),
  };
}

/**
 * An import of node:http reads all that it exports. Among that are WebSocket and the classes of its events, for which Node loads
 * its HTTP client: a tenth of the CPU time of a start.
 */
const importHttpWithoutWebSocket: Plugin = {
  name: "import-http-without-websocket",
  resolveId: (id, _, { kind }) => (/^(?:node:)?http$/.test(id) && kind === "import-statement" ? "\0http" : undefined),
  load: (id) =>
    id === "\0http"
      ? `const http = process.getBuiltinModule("node:http");
        export default http;
        export const { ${Object.keys(http)
          .filter((name) => !/^(?:WebSocket|CloseEvent|MessageEvent)$/.test(name))
          .join(", ")} } = http;`
      : undefined,
};

/** Parts of packages that load node:https or the API of threads with the rest, and are not used. */
const leaveOutUnused: Plugin = {
  name: "leave-out-unused",
  load: (id) =>
    /prom-client[\\/]lib[\\/]pushgateway\.js$|pino[\\/]lib[\\/]transport\.js$/.test(id)
      ? "module.exports = undefined;"
      : undefined,
};

/** Writes the files that are new or have changed. The others stay as they are: a service may be loading them. */
export async function writeBundle({ files }: Bundle, folder: string): Promise<void> {
  for (const { path, code } of files) {
    const file = join(folder, path);
    if ((await readFile(file, "utf8").catch(() => undefined)) !== code) {
      await mkdir(dirname(file), { recursive: true });
      await writeFile(file, code);
    }
  }
}

/** The licences of the packages of these modules. */
export async function readLicenses(paths: readonly string[]): Promise<string> {
  // Without what bundlers add to paths.
  const files = new Set(paths.map((path) => path.replace(/^\0/, "").replace(/\?.*$/, "")));
  const modules = Map.groupBy(files, (path) => /^.*[\\/]node_modules[\\/](?:@[^\\/]+[\\/])?[^\\/]+/.exec(path)?.[0]);
  const folders = [...modules.keys()].filter((folder) => folder !== undefined).toSorted();
  const licenses = await Promise.all(folders.map((folder) => readLicense(folder, modules.get(folder) ?? [])));
  return licenses.join("\n");
}

async function readLicense(folder: string, modules: readonly string[]): Promise<string> {
  const { name, version, license } = JSON.parse(await readFile(join(folder, "package.json"), "utf8")) as Manifest;
  const files = (await readdir(folder)).filter((file) => /^(?:licen[cs]e|copying|notice)/i.test(file));
  const texts = await Promise.all(files.map((file) => readFile(join(folder, file), "utf8")));
  const found = texts.length > 0 ? texts : await findNotices(folder, modules);
  return [`${name} ${version} (${license})`, ...found.map((text) => text.trim()), ""].join("\n\n");
}

/** Some packages have their licence in the README or in comments only. */
async function findNotices(folder: string, modules: readonly string[]): Promise<string[]> {
  const name = (await readdir(folder)).find((file) => /^readme\.md$/i.test(file));
  const readme = name === undefined ? "" : await readFile(join(folder, name), "utf8");
  const section = /^#+ *licen[cs]e\b.*/ims.exec(readme)?.[0];
  const sources = await Promise.all(modules.map((path) => readFile(path, "utf8")));
  const comments = sources.flatMap((source) => source.match(/(?:^\/\/[^\n]*\n)+|\/\*.*?\*\//gms) ?? []);
  const notices = comments.filter((comment) => comment.includes("Copyright"));
  return [...new Set([...(section === undefined ? [] : [section]), ...notices])];
}

type Manifest = { readonly name: string; readonly version: string; readonly license: string };
