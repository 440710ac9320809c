// Builds the packages and the web console: `npm run build`. In this checkout the workspaces export their sources. Their `dist` folders are
// published, whose manifests export the compiled files.
import { execFileSync } from "node:child_process";
import { existsSync } from "node:fs";
import { cp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { dirname, join, relative, resolve } from "node:path";
import { bundleClient, bundleService, readLicenses, writeBundle } from "./bundle.ts";
import { ensureConsole } from "./console.ts";
import { workspaces } from "./workspaces.ts";

const root = resolve(import.meta.dirname, "..");

// Not all of dist: tests may be running a program in it.
const outputs = ["src", "gen", "licenses.txt", "tsconfig.build.tsbuildinfo"].map((name) => join("dist", name));
for (const path of [...outputs, ...workspaces.map((folder) => join(folder, "dist"))]) {
  await rm(join(root, path), { recursive: true, force: true });
}
// Only the declarations: `npm run types` checks the types.
const projects = ["tsconfig.build.json", "packages/node-red/tsconfig.build.json"];
execFileSync("tsc", ["--build", "--noCheck", ...projects], { cwd: root, stdio: "inherit" });
await includeGeneratedCode(join(root, "packages/client/dist"));
const client = await bundleClient();
const clientDist = join(root, "packages/cli/dist");
await writeBundle(client, join(clientDist, "src"));
await writeFile(join(clientDist, "licenses.txt"), await readLicenses(client.modules));
for (const folder of workspaces) {
  await writePackage(join(root, folder));
}
const bundle = await bundleService();
await writeBundle(bundle, join(root, "dist/src"));
const consoleModules = await ensureConsole();
await writeFile(join(root, "dist/licenses.txt"), await readLicenses([...bundle.modules, ...consoleModules]));

/** Moves what tsc compiled to the client's `src` and `gen`, so that the package contains the generated code which this checkout has once. */
async function includeGeneratedCode(dist: string): Promise<void> {
  const compiled = join(dist, "compiled");
  for (const [from, to] of [
    ["packages/client/src", "src"],
    ["gen/flowgate/v1", "gen/flowgate/v1"],
    ["packages/gateway/gen", "gen"],
  ] as const) {
    await cp(join(compiled, from), join(dist, to), { recursive: true });
  }
  // The declarations of the service refer to those of the generated code.
  const isDeclaration = (path: string): boolean => !path.endsWith(".js");
  await cp(join(compiled, "gen"), join(root, "dist/gen"), { recursive: true, filter: isDeclaration });
  await rm(compiled, { recursive: true });
  for (const file of await readdir(dist, { recursive: true })) {
    if (/\.(?:js|ts)$/.test(file)) {
      const path = join(dist, file);
      const gen = relative(dirname(path), join(dist, "gen"));
      const code = await readFile(path, "utf8");
      await writeFile(path, code.replace(/(?<=from ")(?:@flowgate\/gateway|\.\.\/\.\.\/\.\.)\/gen(?=\/)/g, gen));
    }
  }
}

async function writePackage(folder: string): Promise<void> {
  const dist = join(folder, "dist");
  const isBundle = dist === clientDist;
  const {
    private: _,
    devDependencies: __,
    bin,
    exports,
    imports,
    ...manifest
  } = JSON.parse(await readFile(join(folder, "package.json"), "utf8")) as Manifest;
  const compiled = Object.entries(exports).flatMap(([entry, source]) => {
    if (!source.endsWith(".ts")) {
      return [[entry, source]];
    }
    const file = source.replace(/\.ts$/, "");
    // A bundle exports nothing: its entries are for other packages of this repository, which contain what they import.
    return isBundle ? [] : [[entry, { types: `${file}.d.ts`, default: `${file}.js` }]];
  });
  const published = {
    ...manifest,
    ...(await readOrigin(folder)),
    ...(bin && { bin: mapValues(bin, compiledFile) }),
    ...(imports && { imports: mapValues(imports, (files) => mapValues(files, compiledFile)) }),
    exports: Object.fromEntries(compiled),
  };
  await writeFile(join(dist, "package.json"), `${JSON.stringify(published, null, 2)}\n`);
  await cp(join(root, "LICENSE"), join(dist, "LICENSE"));
  const written = ["README.md", ...manifest.files.filter((file) => !existsSync(join(dist, file)))];
  for (const file of written) {
    await cp(join(folder, file), join(dist, file), { recursive: true });
  }
}

/** Where the package comes from: by the manifest of the service, the only one that states it. */
async function readOrigin(folder: string): Promise<object> {
  const { author, homepage, bugs, repository } = JSON.parse(
    await readFile(join(root, "package.json"), "utf8"),
  ) as Origin;
  const directory = relative(root, folder);
  return { author, homepage, bugs, repository: { ...repository, directory } };
}

function compiledFile(source: string): string {
  return source.replace(/\.ts$/, ".js");
}

function mapValues<T, U>(object: Readonly<Record<string, T>>, map: (value: T) => U): Record<string, U> {
  return Object.fromEntries(Object.entries(object).map(([key, value]) => [key, map(value)]));
}

type Origin = {
  readonly author: string;
  readonly homepage: string;
  readonly bugs: string;
  readonly repository: { readonly type: "git"; readonly url: string };
};

type Manifest = {
  readonly private: true;
  readonly devDependencies?: object;
  readonly bin?: Readonly<Record<string, string>>;
  readonly exports: Readonly<Record<string, string>>;
  /** The internal imports that depend on the runtime: a file for each condition. */
  readonly imports?: Readonly<Record<string, Readonly<Record<string, string>>>>;
  readonly files: readonly string[];
};
