import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { FlowgateError } from "@flowgate/flows/errors";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { publicRoute } from "../access.ts";
import { editorPolicy, pageHeaders } from "../content-security.ts";
import type { Host } from "../host.ts";
import { mediaTypeOf } from "../media-types.ts";
import { type CatalogFiles, readCatalog, readLanguage } from "../palette/catalogs.ts";
import type { EditorClient } from "./client-files.ts";
import { deployMessageScript } from "./deploy-message.ts";
import { chooseEncoding, EditorFiles } from "./files.ts";
import { deployMessagePath, renderPage, theme } from "./page.ts";

export type EditorRoutesOptions = {
  readonly client: EditorClient;
  /** Where compressed files are kept. */
  readonly cacheDir: string;
  /** The URL of the list of modules that can be installed; undefined: there is none. */
  readonly catalogue: string | undefined;
  readonly host: Pick<Host, "modules">;
};

const open = { config: publicRoute };

/** The page of Node-RED's editor, and its files, which contain nothing of the service and its flows. */
export function addEditorRoutes(
  app: FastifyInstance,
  { client, cacheDir, catalogue, host }: EditorRoutesOptions,
): void {
  /** The folder of Node-RED's own nodes. */
  const coreDir = async (): Promise<string> => (await host.modules())[0]?.dir ?? "";
  const files = new EditorFiles({ ...client, cacheDir });
  app.addHook("onReady", async () => {
    // A file that can't be read is not served either.
    files.compressAll().catch(() => {});
  });
  app.addHook("onClose", () => files[Symbol.asyncDispose]());
  const policy = editorPolicy(catalogue === undefined ? undefined : new URL(catalogue).origin);
  let page: Promise<string> | undefined;

  app.get("/", open, async (_, reply) => {
    page ??= renderPage(client);
    return sendPage(reply, await page, policy);
  });
  app.get("/theme", open, () => theme);
  app.get(`/${deployMessagePath}`, open, (_, reply) =>
    reply.header("cache-control", "no-cache").type("text/javascript; charset=utf-8").send(deployMessageScript),
  );
  for (const folder of ["red", "vendor", "types"]) {
    app.get<AssetRequest>(`/${folder}/*`, open, (request, reply) =>
      sendAsset(files, client.version, `${folder}/${request.params["*"]}`, request, reply),
    );
  }
  app.get<AssetRequest>("/favicon.ico", open, (request, reply) =>
    sendAsset(files, client.version, "favicon.ico", request, reply),
  );
  app.get<{ Params: { readonly namespace: string }; Querystring: { readonly lng?: unknown } }>(
    "/locales/:namespace",
    open,
    async ({ params, query: { lng } }) => {
      const namespace = params.namespace.replace(/\.json$/, "");
      const files = catalogFiles(client, await coreDir()).get(namespace);
      const language = readLanguage(typeof lng === "string" ? lng : undefined);
      return (files && (await readCatalog(files, language))) ?? {};
    },
  );
  app.get<{ Params: { readonly "*": string } }>("/debug/view/*", open, async ({ params: { "*": name } }, reply) => {
    const content = await readDebugView(await coreDir(), name);
    return name.endsWith(".html")
      ? sendPage(reply, content, policy)
      : reply.header("cache-control", "no-cache").type(mediaTypeOf(name)).send(content);
  });
}

type AssetRequest = { Params: { readonly "*": string }; Querystring: { readonly v?: unknown } };

async function sendAsset(
  files: EditorFiles,
  version: string,
  path: string,
  { headers, query: { v } }: FastifyRequest<AssetRequest>,
  reply: FastifyReply,
): Promise<FastifyReply> {
  const file = await files.find(path);
  if (file === undefined) {
    throw new FlowgateError("not_found", "the editor has no such file");
  }
  reply
    .header("etag", file.etag)
    .header("vary", "Accept-Encoding")
    .header("cache-control", v === version ? "public, max-age=31536000, immutable" : "no-cache");
  if (headers["if-none-match"]?.includes(file.etag) === true) {
    return reply.status(304).send();
  }
  const { body, bytes, encoding } = await files.open(file, chooseEncoding(headers["accept-encoding"]));
  if (encoding !== undefined) {
    reply.header("content-encoding", encoding);
  }
  return reply.type(mediaTypeOf(path)).header("content-length", bytes).send(body);
}

function sendPage(reply: FastifyReply, html: string | Buffer, policy: string): FastifyReply {
  return reply
    .headers({ ...pageHeaders, "content-security-policy": policy, "cache-control": "no-cache" })
    .type("text/html; charset=utf-8")
    .send(html);
}

function catalogFiles({ localesDir }: EditorClient, coreDir: string): ReadonlyMap<string, CatalogFiles> {
  const own = (name: string) => [name, { dir: localesDir, file: `${name}.json` }] as const;
  return new Map([
    own("editor"),
    own("jsonata"),
    own("infotips"),
    ["node-red", { dir: join(coreDir, "locales"), file: "messages.json" }],
  ]);
}

const debugFiles: ReadonlySet<string> = new Set(["view.html", "debug.js", "debug-utils.js"]);

/** The files of the debug node for the editor, which the runtime process would serve otherwise: that may send anything. */
async function readDebugView(coreDir: string, name: string): Promise<Buffer> {
  if (!debugFiles.has(name)) {
    throw new FlowgateError("not_found", "the editor has no such file");
  }
  return readFile(join(coreDir, "core", "common", "lib", "debug", name));
}
