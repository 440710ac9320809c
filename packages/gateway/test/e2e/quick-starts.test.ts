import { execFile } from "node:child_process";
import { cp, mkdir, mkdtemp, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { promisify } from "node:util";
import { createClient } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import { afterAll, beforeAll, expect, test } from "vitest";
import { Health } from "../../gen/grpc/health/v1/health_pb.ts";
import { openListeningProgram } from "../listening-program.ts";

const root = resolve(import.meta.dirname, "../../../..");
const readme = await readFile(join(root, "packages/gateway/README.md"), "utf8");

let folder: string;

/** Writes the project of the tutorial to a folder that has the dependencies of this checkout. */
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "quick-starts-"));
  await symlink(join(root, "node_modules"), join(folder, "node_modules"));
  await cp(join(root, "packages/gateway/proto"), join(folder, "proto"), { recursive: true });
  for (const file of ["package.json", "proto/library/v1/library.proto", "library.ts", "buf.gen.yaml"]) {
    const text = readme.split(`file=${file}\n`)[1]?.split("\n```")[0];
    await mkdir(dirname(join(folder, file)), { recursive: true });
    await writeFile(join(folder, file), text ?? `${file} is missing`);
  }
  const bin = join(root, "node_modules/.bin");
  await promisify(execFile)(join(bin, "buf"), ["generate", "proto"], {
    cwd: folder,
    env: { ...process.env, PATH: `${bin}:${process.env["PATH"]}` },
  });
});
afterAll(() => rm(folder, { recursive: true }));

/** The last TypeScript example under a heading. */
function exampleOf(heading: string): string {
  const section = readme.split(new RegExp(`^#{2,3} ${heading}\n`, "m"))[1]?.split(/^#{2,3} /m)[0] ?? "";
  const example = [...section.matchAll(/^```ts[^\n]*\n(.*?)^```$/gms)].at(-1)?.[1];
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

async function serve(heading: string, handler?: string): Promise<AsyncDisposable & { readonly url: string }> {
  const name = `${heading.replaceAll(/\W/g, "-")}.ts`;
  await writeFile(join(folder, name), exampleOf(heading).replace(/\b8080\b/, "0"));
  await writeFile(join(folder, "report-port.mjs"), reportPort);
  await writeFile(join(folder, `serve-${name}`), handler === undefined ? "" : serveHandler(name, handler));
  const entry = handler === undefined ? name : `serve-${name}`;
  return openListeningProgram(process.execPath, ["--import", "./report-port.mjs", entry], { cwd: folder });
}

const emma = '{"id":"emma","title":"Emma","author":{"name":"Jane Austen","born":1775},"genre":"novel","revision":"1"}';

const post = (body: string): RequestInit => ({
  method: "POST",
  headers: { "Content-Type": "application/json" },
  body,
});

test.each<[heading: string, aboutStatus: number, about: RegExp, handler?: string]>([
  ["node:http", 404, /not_found/],
  ["Express", 200, /^A library$/],
  ["Hono", 200, /^A library$/, "example.default.fetch"],
  ["Next", 404, /not_found/, "example[request.method]"],
  ["Fastify", 200, /^A library$/],
  ["An existing Connect project", 404, /not_found/],
])("the example for %s serves the library; /about is %s", async (heading, status, about, handler) => {
  await using server = await serve(heading, handler);
  const book = await fetch(`${server.url}/v1/books/emma`);
  expect([book.status, await book.text()]).toEqual([200, emma]);
  const rpc = await fetch(`${server.url}/library.v1.LibraryService/GetBook`, post('{"id": "optics"}'));
  expect(await rpc.json()).toMatchObject({ id: "optics", genre: "GENRE_SCIENCE" });
  const created = await fetch(`${server.url}/v1/books`, post('{"id": "ulysses"}'));
  expect([created.status, await created.json()]).toEqual([201, { id: "ulysses", revision: "1" }]);
  const other = await fetch(`${server.url}/about`);
  expect([other.status, await other.text()]).toEqual([status, expect.stringMatching(about)]);
});

test("the example for node:http2 serves gRPC, with its standard services", async () => {
  await using server = await serve("node:http2");
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
