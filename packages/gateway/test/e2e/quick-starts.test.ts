import { execFile } from "node:child_process";
import { cp, mkdir, writeFile } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { promisify } from "node:util";
import { createClient } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import { build, type Rolldown } from "vite";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { Health } from "../../gen/grpc/health/v1/health_pb.ts";
import { openListeningProgram } from "../listening-program.ts";
import { generate, installFrameworks, openLibrary, readme, writeTutorial } from "./library-project.ts";

const root = resolve(import.meta.dirname, "../../../..");

const frameworks = await installFrameworks();

let library: Awaited<ReturnType<typeof openLibrary>>;
let folder: string;
beforeAll(async () => {
  library = await openLibrary(frameworks.missing === undefined ? [frameworks.folder] : []);
  ({ folder } = library);
});
afterAll(() => library[Symbol.asyncDispose]());

/** A TypeScript example under a heading: the last one, or the one at an index. */
function exampleOf(heading: string, at = -1): string {
  const section = readme.split(new RegExp(`^#{2,3} ${heading}\n`, "m"))[1]?.split(/^#{2,3} /m)[0] ?? "";
  const example = [...section.matchAll(/^```ts[^\n]*\n(.*?)^```$/gms)].at(at)?.[1];
  if (example === undefined) {
    throw new Error(`there is no example for ${heading}`);
  }
  return example;
}

/** What a program prints whose server listens on a free port instead of 8080. */
const reportPort = `
import { subscribe } from "node:diagnostics_channel";
subscribe("tracing:net.server.listen:asyncEnd", ({ server }) => console.log("listens on http://localhost:" + server.address().port));
`;

/** For examples that export their handler, as their runtimes and frameworks call it. */
const serveHandler = (name: string, handler: string): string => `
import { serve } from "@hono/node-server";
import * as example from "./${name}";
serve({ fetch: (request) => (${handler})(request), port: 0 });
`;

type Example = {
  readonly heading: string;
  readonly at?: number;
  /** How its runtime or framework calls its exports. Default: it listens itself. */
  readonly handler?: string;
};

async function serve({ heading, at, handler }: Example): Promise<AsyncDisposable & { readonly url: string }> {
  const name = `${heading.replaceAll(/\W/g, "-")}${at ?? ""}.ts`;
  await writeFile(join(folder, name), exampleOf(heading, at).replace(/\b8080\b/, "0"));
  await writeFile(join(folder, "report-port.mjs"), reportPort);
  await writeFile(join(folder, `serve-${name}`), handler === undefined ? "" : serveHandler(name, handler));
  const entry = handler === undefined ? name : `serve-${name}`;
  return openListeningProgram(process.execPath, ["--import", "./report-port.mjs", entry], { cwd: folder });
}

const emma = '{"id":"emma","title":"Emma","author":{"name":"Jane Austen","born":1775},"genre":"novel","revision":"1"}';

const post = (body: string): RequestInit => ({ method: "POST", headers: { "Content-Type": "application/json" }, body });

/** What the library responds over REST and Connect, and what is at `/about`, a path of the application. */
async function readLibrary(url: string, applicationUrl = url): Promise<unknown[]> {
  const book = await fetch(`${url}/v1/books/emma`);
  const rpc = await fetch(`${url}/library.v1.LibraryService/GetBook`, post('{"id": "optics"}'));
  const created = await fetch(`${url}/v1/books`, post('{"id": "ulysses"}'));
  const about = await fetch(`${applicationUrl}/about`);
  return [
    [book.status, await book.text()],
    [rpc.status, await rpc.json()],
    [created.status, await created.json()],
    [about.status, await about.text()],
  ];
}

/** `about`: what the application responds; undefined if all paths are those of the gateway. */
const expectedOf = (about?: string): unknown[] => [
  [200, emma],
  [200, expect.objectContaining({ id: "optics", genre: "GENRE_SCIENCE" })],
  [201, { id: "ulysses", revision: "1" }],
  about === undefined ? [404, expect.stringMatching(/not_found/)] : [200, about],
];

test.each<Example & { readonly about?: string }>([
  { heading: "node:http" },
  { heading: "Express", about: "A library" },
  { heading: "Hono", at: 0, about: "A library", handler: "example.default.fetch" },
  // Called as Next calls it. Next itself is an installation of 340 MB, and a build of half a minute.
  { heading: "Next", handler: "example[request.method]" },
  { heading: "Fastify", about: "A library" },
  { heading: "An existing Connect project" },
])("the example for $heading serves the library", async ({ about, ...example }) => {
  await using server = await serve(example);
  expect(await readLibrary(server.url)).toEqual(expectedOf(about));
});

test("the example for Hono with a prefix serves the library there", async () => {
  await using server = await serve({ heading: "Hono", at: 1, handler: "example.default.fetch" });
  expect(await readLibrary(`${server.url}/api`, server.url)).toEqual(expectedOf("A library"));
});

describe.skipIf(frameworks.missing !== undefined)("with frameworks that are installed for these tests", () => {
  test("the example for Koa serves the library", async () => {
    await using server = await serve({ heading: "Koa" });
    expect(await readLibrary(server.url)).toEqual(expectedOf("A library"));
  });

  test("the example for NestJS serves the library, before the body parsers of Nest", async () => {
    // Node does not run decorators, which are functions.
    await writeFile(
      join(folder, "app.module.ts"),
      `import "reflect-metadata";
      import { Controller, Get, Module } from "@nestjs/common";
      class AboutController { about() { return "A library"; } }
      Get("about")(AboutController.prototype, "about", Object.getOwnPropertyDescriptor(AboutController.prototype, "about"));
      Controller()(AboutController);
      export class AppModule {}
      Module({ controllers: [AboutController] })(AppModule);`,
    );
    await using server = await serve({ heading: "NestJS" });
    expect(await readLibrary(server.url)).toEqual(expectedOf("A library"));
  });

  test("the example for Cloudflare Workers serves the library in workerd", async () => {
    const entry = join(folder, "worker.ts");
    await writeFile(entry, exampleOf("Cloudflare Workers"));
    const output = (await build({
      configFile: false,
      logLevel: "silent",
      build: { write: false, minify: false, lib: { entry, formats: ["es"] } },
    })) as Rolldown.RolldownOutput[];
    const [chunk] = output.flatMap((each) => each.output);
    const contents = chunk?.type === "chunk" ? chunk.code : "";
    const entryOfMiniflare = pathToFileURL(join(frameworks.folder, "miniflare/dist/src/index.js")).href;
    const { Miniflare } = (await import(entryOfMiniflare)) as {
      Miniflare: new (options: object) => { readonly ready: Promise<URL>; dispose(): Promise<void> };
    };
    const worker = new Miniflare({
      compatibilityDate: "2026-04-01",
      host: "127.0.0.1",
      modules: [{ type: "ESModule", path: "worker.js", contents }],
    });
    try {
      expect(await readLibrary((await worker.ready).origin)).toEqual(expectedOf());
    } finally {
      await worker.dispose();
    }
  });
});

describe("the buf.yaml for a project with googleapis", () => {
  const [, block = ""] = /^ *```yaml\n((?:(?!```).)*deps:.*?)^ *```/ms.exec(readme) ?? [];
  const documented = block.replaceAll(/^ {3}/gm, "");

  /** Generates code with a buf.yaml in which a folder stands in for the module of the registry. */
  async function generateWith(name: string, config: string): Promise<string> {
    const project = join(folder, name);
    const local = config.replace(/^deps:\n.*$/ms, "").replace("modules:\n", "modules:\n  - path: googleapis\n");
    await writeTutorial(project, ["proto/library/v1/library.proto", "buf.gen.yaml"]);
    await writeFile(join(project, "buf.yaml"), local);
    for (const file of ["annotations", "http"].map((each) => `google/api/${each}.proto`)) {
      await mkdir(dirname(join(project, "googleapis", file)), { recursive: true });
      await cp(join(root, "packages/gateway/proto", file), join(project, "googleapis", file));
    }
    const proto = "node_modules/@flowgate/gateway/proto";
    await cp(join(root, "packages/gateway/proto"), join(project, proto), { recursive: true });
    await generate(project);
    const { stdout } = await promisify(execFile)("find", ["gen", "-name", "*_pb.ts"], { cwd: project });
    return stdout.trim().split("\n").toSorted().join(" ");
  }

  test("takes google.api from there, and the options from the package", async () => {
    expect(documented).toContain("buf.build/googleapis/googleapis");
    expect(await generateWith("with-googleapis", documented)).toBe(
      "gen/flowgate/gateway/v1/annotations_pb.ts gen/google/api/annotations_pb.ts gen/google/api/http_pb.ts gen/library/v1/library_pb.ts",
    );
  });

  test("fails without its `includes`", async () => {
    const whole = documented.replace(/^ *includes:\n.*\n/m, "");
    await expect(generateWith("without-includes", whole)).rejects.toThrow(/google\/api\/annotations\.proto/);
  });
});

test("the example for node:http2 serves gRPC, with its standard services", async () => {
  await using server = await serve({ heading: "node:http2" });
  const transport = createGrpcTransport({ baseUrl: server.url });
  const services = Object.keys((await createClient(Health, transport).list({})).statuses);
  expect(services).toEqual([
    "",
    "library.v1.LibraryService",
    "grpc.health.v1.Health",
    "grpc.reflection.v1.ServerReflection",
    "grpc.reflection.v1alpha.ServerReflection",
  ]);
});
