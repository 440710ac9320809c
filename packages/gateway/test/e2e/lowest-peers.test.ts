import { readFile, writeFile } from "node:fs/promises";
import { delimiter, dirname, join } from "node:path";
import { expect, test } from "vitest";
import { buildPackages } from "../../../../test/packaging/build.ts";
import { openStage, root } from "../../../../test/packaging/stage.ts";
import { writeTutorial } from "./library-project.ts";

/** Calls the library of the README by each adapter, with unary calls, a stream and an error, and describes it. */
const program = `
import { createServer } from "node:http";
import { createClient } from "@connectrpc/connect";
import { connectNodeAdapter } from "@connectrpc/connect-node";
import { fastify } from "fastify";
import { openapi } from "@flowgate/gateway";
import { createRestTransport } from "@flowgate/gateway/client";
import { fastifyGatewayPlugin } from "@flowgate/gateway/fastify";
import { createFetchHandler } from "@flowgate/gateway/fetch";
import { createNodeHandler } from "@flowgate/gateway/node";
import { retryInterceptor, SettingsService } from "@flowgate/client";
import { LibraryService } from "./gen/library/v1/library_pb.ts";
import { routes } from "./library.ts";

async function call(baseUrl: string, serve: typeof fetch = fetch): Promise<string> {
  const library = createClient(LibraryService, createRestTransport({ baseUrl, fetch: serve }));
  const { title } = await library.getBook({ id: "emma" });
  const exported: string[] = [];
  for await (const { id } of library.exportBooks({})) {
    exported.push(id);
  }
  const error = await library.getBook({ id: "none" }).catch((reason: unknown) => String(reason));
  return [title, exported.join("+"), String(error)].join(", ");
}

const server = createServer(connectNodeAdapter({ routes, fallback: createNodeHandler({ routes }) }));
await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
const { port } = server.address() as { port: number };
console.log("node:", await call(\`http://127.0.0.1:\${port}\`));
server.close();

const handle = createFetchHandler({ routes });
const serve: typeof fetch = async (input, init) => (await handle(new Request(input, init))) ?? Response.error();
console.log("fetch:", await call("http://library.example", serve));

const app = fastify();
await app.register(fastifyGatewayPlugin, { routes });
console.log("fastify:", await call(await app.listen({ host: "127.0.0.1", port: 0 })));
await app.close();

const document = openapi({ routes }, { info: { title: "Library", version: "1.0.0" } });
console.log("openapi:", Object.keys(document.paths ?? {}).join(" "));
console.log("client:", SettingsService.typeName, typeof retryInterceptor);
`;

/** Uses the declarations of each entry, and of the generated code in both packages. */
const types = `
import { type ConnectRouter, createClient, createRouterTransport } from "@connectrpc/connect";
import { IsolationLevel, SettingsService } from "@flowgate/client";
import { Health, HealthCheckResponse_ServingStatus } from "@flowgate/gateway/gen/grpc/health/v1/health_pb.js";
import { createGateway, openapi, type GatewayOptions } from "@flowgate/gateway";
import { createRestTransport } from "@flowgate/gateway/client";
import { createFrameworkErrorHandler, fastifyGatewayPlugin } from "@flowgate/gateway/fastify";
import { createFetchHandler } from "@flowgate/gateway/fetch";
import { createNodeHandler } from "@flowgate/gateway/node";
import { fastify } from "fastify";

const options: GatewayOptions = { routes: (router) => router, requestGate: ({ requestHeader }) => void requestHeader };
fastify({ frameworkErrors: createFrameworkErrorHandler() }).register(fastifyGatewayPlugin, options);
export const all = [createNodeHandler(options), createFetchHandler(options), createGateway(options)];
export const document = openapi(options, { info: { title: "Nothing", version: "1.0.0" } });
export const transport = createRestTransport({ baseUrl: "https://library.example" });
export const routes = (router: ConnectRouter) =>
  router.service(Health, { check: () => ({ status: HealthCheckResponse_ServingStatus.SERVING }) });
export async function readSettings(): Promise<IsolationLevel | undefined> {
  const settings = createClient(SettingsService, createRouterTransport(routes));
  return (await settings.getSettings({})).runtime?.isolation?.level;
}
`;

const env = {
  ...Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith("npm_"))),
  PATH: [dirname(process.execPath), join(root, "node_modules/.bin"), process.env["PATH"]].join(delimiter),
};

type Manifest = { readonly peerDependencies: Readonly<Record<string, string>> };

/** The lowest versions that both packages accept. */
async function readLowest(): Promise<Record<string, string>> {
  const [gateway, client] = await Promise.all(
    ["gateway", "client"].map(
      async (name) => JSON.parse(await readFile(join(root, "packages", name, "package.json"), "utf8")) as Manifest,
    ),
  );
  expect(gateway?.peerDependencies).toMatchObject(client?.peerDependencies ?? {});
  const ranges = Object.entries(gateway?.peerDependencies ?? {});
  return Object.fromEntries(ranges.map(([name, range]) => [name, range.replace(/^\^/, "")]));
}

test("the packages run with the lowest versions of their peer dependencies", async () => {
  const lowest = await readLowest();
  await using stage = await openStage();
  const files = ["package.json", "proto/library/v1/library.proto", "library.ts", "buf.yaml", "buf.gen.yaml"];
  await writeTutorial(stage.empty, files);
  await writeFile(join(stage.empty, "calls.ts"), program);
  const { "@flowgate/gateway": gateway = "", "@flowgate/client": client = "" } = (await buildPackages()).archives;
  const packed = [gateway, client];
  const peers = { ...lowest, "@connectrpc/connect-node": lowest["@connectrpc/connect"] };
  const versions = Object.entries(peers).map(([name, version]) => `${name}@${version}`);
  const settings = ["--save-exact", "--prefer-offline", "--no-audit", "--no-fund"];
  await stage.run("npm", ["install", ...settings, ...packed, ...versions], { env });
  for (const [name, version] of Object.entries(lowest)) {
    const manifest = await readFile(join(stage.empty, "node_modules", name, "package.json"), "utf8");
    expect([name, (JSON.parse(manifest) as { version: string }).version]).toEqual([name, version]);
  }
  await stage.run("buf", ["generate"], { env });
  // Without skipLibCheck, so that the declarations of the package are checked too.
  await writeFile(join(stage.empty, "types.ts"), types);
  const typeRoots = ["--typeRoots", join(root, "node_modules/@types"), "--types", "node"];
  const modules = ["--module", "nodenext", "--target", "esnext", "--noEmit"];
  await stage.run("tsc", ["--strict", ...modules, ...typeRoots, "types.ts"], { env });

  const called = "Emma, emma+optics, ConnectError: [not_found] there is no book none";
  expect((await stage.run(process.execPath, ["calls.ts"], { env })).trimEnd().split("\n")).toEqual([
    `node: ${called}`,
    `fetch: ${called}`,
    `fastify: ${called}`,
    "openapi: /v1/books/{id} /v1/books /v1/books:export",
    "client: flowgate.v1.SettingsService function",
  ]);
}, 300_000);
