import { execFile } from "node:child_process";
import { glob, mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { buildPackages } from "../../../../test/packaging/build.ts";
import { root } from "../../../../test/packaging/stage.ts";
import { generate, installFrameworks, openLibrary, writeTutorial } from "./library-project.ts";

const frameworks = await installFrameworks();
const lowest = join(frameworks.folder, "typescript");
const newest = join(root, "node_modules/typescript");

/** The TypeScript examples of all documents, by a name for their file that says where they are. */
async function readSnippets(): Promise<ReadonlyMap<string, string>> {
  const snippets = new Map<string, string>();
  for await (const page of glob(["README.md", "docs/*.md", "packages/*/README.md", "packages/*/docs/*.md"], {
    cwd: root,
  })) {
    const text = await readFile(join(root, page), "utf8");
    for (const { 1: indent = "", 2: code = "", index } of text.matchAll(/^( *)```ts\b[^\n]*\n(.*?)^\1```$/gms)) {
      const line = text.slice(0, index).split("\n").length;
      snippets.set(`${page.replaceAll(/\W/g, "-")}-${line}.ts`, code.replaceAll(new RegExp(`^${indent}`, "gm"), ""));
    }
  }
  return snippets;
}

/** What examples take for granted. */
const given = {
  "globals.d.ts": `
    type Fetch = (request: Request) => Response | Promise<Response>;
    declare const Bun: { serve(options: { fetch: Fetch }): unknown };
    declare const Deno: { serve(handler: Fetch): unknown };`,
  "app.module.ts": "export class AppModule {}",
  // The compilers have to report its error, and no other.
  "wrong.ts": `
    import { createNodeHandler } from "@flowgate/gateway/node";
    createNodeHandler({ routes: () => {}, unknownPath: "forward" });`,
};

const resolutions = {
  nodenext: { module: "nodenext", moduleResolution: "nodenext" },
  bundler: { module: "esnext", moduleResolution: "bundler" },
};

const strict = {
  strict: true,
  noEmit: true,
  target: "esnext",
  types: ["node"],
  // Other packages have errors in older versions.
  skipLibCheck: true,
};

let library: Awaited<ReturnType<typeof openLibrary>>;
let snippets: ReadonlyMap<string, string>;

/** The project of the tutorial with the packed packages and all examples. */
beforeAll(async () => {
  const packages = join((await buildPackages()).checkout, "unpacked/node_modules");
  const { archives } = await buildPackages();
  for (const [name, archive] of Object.entries(archives)) {
    await mkdir(join(packages, name), { recursive: true });
    await run("tar", ["-xzf", archive, "--strip-components=1", "-C", join(packages, name)], root);
  }
  library = await openLibrary([packages, ...(frameworks.missing === undefined ? [frameworks.folder] : [])]);
  snippets = await readSnippets();
  for (const [file, text] of [...Object.entries(given), ...snippets]) {
    await writeFile(join(library.folder, file), text);
  }
});
afterAll(() => library[Symbol.asyncDispose]());

async function run(command: string, args: readonly string[], cwd: string): Promise<string> {
  return promisify(execFile)(command, args, { cwd, encoding: "utf8" }).then(
    ({ stdout }) => stdout,
    ({ stdout, message }: { stdout?: string; message: string }) => {
      throw new Error(stdout === undefined || stdout === "" ? message : stdout);
    },
  );
}

/** What a compiler reports. */
function errorsOf(compiler: string, folder: string, project: string): Promise<string> {
  return run(process.execPath, [join(compiler, "bin/tsc"), "-p", project], folder).catch(
    ({ message }: Error) => message,
  );
}

test("there are examples in the documents of all packages", () => {
  const pages = [...new Set([...snippets.keys()].map((name) => name.replace(/-\d+\.ts$/, "")))];
  expect(pages).toEqual(expect.arrayContaining(["README-md", "docs-embedding-md", "packages-gateway-README-md"]));
  expect(snippets.size).toBeGreaterThan(20);
});

describe.skipIf(frameworks.missing !== undefined)("the examples of all documents have no type errors", () => {
  test.each([
    ["5.2", "nodenext", lowest],
    ["7.0", "bundler", newest],
  ] as const)("in TypeScript %s, with the module resolution %s", async (version, resolution, compiler) => {
    const manifest = await readFile(join(compiler, "package.json"), "utf8");
    expect((JSON.parse(manifest) as { version: string }).version).toMatch(new RegExp(`^${version}\\.`));
    const project = `tsconfig.${resolution}.json`;
    const compilerOptions = { ...strict, ...resolutions[resolution], allowImportingTsExtensions: true };
    const files = ["globals.d.ts", "wrong.ts", ...snippets.keys()];
    await writeFile(join(library.folder, project), JSON.stringify({ compilerOptions, files }));
    const errors = await errorsOf(compiler, library.folder, project);
    expect(errors.match(/^\S.*$/gm)).toEqual([expect.stringMatching(/^wrong\.ts.* TS2322/)]);
  });
});

describe("a CommonJS project in TypeScript", () => {
  const program = `
    import type { ConnectRouter } from "@connectrpc/connect";
    import { LibraryService } from "./gen/library/v1/library_pb.js";

    function routes(router: ConnectRouter): void {
      router.service(LibraryService, { getBook: ({ id }) => ({ id, title: "Emma" }) });
    }

    async function main(): Promise<void> {
      const { createFetchHandler } = await import("@flowgate/gateway/fetch");
      const handle = createFetchHandler({ routes: ROUTES });
      const response = await handle(new Request("http://library.example/v1/books/emma"));
      console.log(response.status, await response.text());
    }
    void main();`;

  let folder: string;
  let errors: string;
  beforeAll(async () => {
    folder = join(library.folder, "commonjs");
    await writeTutorial(folder, ["proto/library/v1/library.proto"]);
    await writeFile(join(folder, "package.json"), "{}");
    await writeFile(join(folder, "cast.ts"), program.replace("ROUTES", "routes as never"));
    await writeFile(join(folder, "plain.ts"), program.replace("ROUTES", "routes"));
    const compilerOptions = { ...strict, ...resolutions.nodenext, noEmit: false, outDir: "dist" };
    await writeFile(join(folder, "tsconfig.json"), JSON.stringify({ compilerOptions, files: ["cast.ts", "plain.ts"] }));
    const plugin = {
      local: "protoc-gen-es",
      out: "gen",
      include_imports: true,
      opt: ["target=ts", "import_extension=js"],
    };
    await generate(folder, "../proto", "--template", JSON.stringify({ version: "v2", plugins: [plugin] }));
    errors = await errorsOf(newest, folder, ".");
  });

  test("passes its routes on by a cast, and is served", async () => {
    expect(errors).not.toContain("cast.ts");
    const output = await run(process.execPath, ["dist/cast.js"], folder);
    expect(output).toBe('200 {"id":"emma","title":"Emma"}\n');
  });

  test("does not compile without it, as the README says", () => {
    expect(errors).toMatch(/^plain\.ts.* TS2769.*connect\/dist\/cjs\/router/s);
  });
});
