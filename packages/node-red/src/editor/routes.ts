import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import type { Readable } from "node:stream";
import { FlowgateError } from "@flowgate/flows/errors";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { publicRoute } from "../access.ts";
import { editorPolicy, pageHeaders } from "../content-security.ts";
import type { Host } from "../host.ts";
import { mediaTypeOf } from "../media-types.ts";
import { type CatalogFiles, readCatalog, readLanguage } from "../palette/catalogs.ts";
import { type EditorClient, listFiles } from "./client-files.ts";
import { chooseEncoding, CompressedFiles, type Encoding } from "./compressed-files.ts";
import { deployMessageScript } from "./deploy-message.ts";
import { cacheBusterOf, deployMessagePath, renderPage, theme } from "./page.ts";

export type EditorRoutesOptions = {
  readonly client: EditorClient;
  /** Where compressed files are kept. */
  readonly cacheDir: string;
  /** The URL of the list of modules that can be installed; undefined: there is none. */
  readonly catalogue: string | undefined;
  readonly host: Pick<Host, "modules">;
  /** Once it is aborted, no further files are compressed. */
  readonly closing: AbortSignal;
};

const open = { config: publicRoute };

/** The page of Node-RED's editor, and its files, which contain nothing of the service and its flows. */
export function addEditorRoutes(
  app: FastifyInstance,
  { client, cacheDir, catalogue, host, closing }: EditorRoutesOptions,
): void {
  /** The folder of Node-RED's own nodes. */
  const coreDir = async (): Promise<string> => (await host.modules())[0]?.dir ?? "";
  const assets = new Assets(client, cacheDir);
  app.addHook("onReady", async () => {
    // A file that can't be read is not served either.
    assets.compressAll(closing).catch(() => {});
  });
  const version = cacheBusterOf(client);
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
      sendAsset(assets, version, `${folder}/${request.params["*"]}`, request, reply),
    );
  }
  app.get<AssetRequest>("/favicon.ico", open, (request, reply) =>
    sendAsset(assets, version, "favicon.ico", request, reply),
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
  assets: Assets,
  version: string,
  path: string,
  { headers, query: { v } }: FastifyRequest<AssetRequest>,
  reply: FastifyReply,
): Promise<FastifyReply> {
  const asset = await assets.find(path);
  if (asset === undefined) {
    throw new FlowgateError("not_found", "the editor has no such file");
  }
  reply
    .header("etag", asset.etag)
    .header("vary", "Accept-Encoding")
    .header("cache-control", v === version ? "public, max-age=31536000, immutable" : "no-cache");
  if (headers["if-none-match"]?.includes(asset.etag) === true) {
    return reply.status(304).send();
  }
  const { body, bytes, encoding } = await asset.read(chooseEncoding(headers["accept-encoding"]));
  if (encoding !== undefined) {
    reply.header("content-encoding", encoding);
  }
  return reply.type(asset.type).header("content-length", bytes).send(body);
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

/** The files of the debug node for the editor, which the process of the flows would serve otherwise: that may send anything. */
async function readDebugView(coreDir: string, name: string): Promise<Buffer> {
  if (!debugFiles.has(name)) {
    throw new FlowgateError("not_found", "the editor has no such file");
  }
  return readFile(join(coreDir, "core", "common", "lib", "debug", name));
}

/** A file of the editor. */
type Asset = {
  readonly type: string;
  /** A validator for all encodings (RFC 9110, section 8.8.3). */
  readonly etag: string;
  /** Its content in this encoding, or without one. */
  read(encoding: Encoding | undefined): Promise<AssetContent>;
};

type AssetContent = {
  /** A stream: clients may read slowly, and files have megabytes. */
  readonly body: Readable;
  readonly bytes: number;
  readonly encoding: Encoding | undefined;
};

/** The files that browsers load, by their paths. */
class Assets {
  readonly #files: Promise<ReadonlyMap<string, string>>;
  readonly #compressed: CompressedFiles;
  /** The files do not change while the service runs. */
  readonly #hashes = new Map<string, Promise<{ readonly hash: string; readonly bytes: number }>>();

  constructor({ publicDir, version }: EditorClient, cacheDir: string) {
    this.#files = listFiles(publicDir);
    this.#files.catch(() => {});
    this.#compressed = new CompressedFiles({ cacheDir, version });
  }

  /** Undefined: there is none. `path` has no `/` at its beginning. */
  async find(path: string): Promise<Asset | undefined> {
    const file = (await this.#files).get(path);
    if (file === undefined) {
      return undefined;
    }
    const { hash, bytes } = await this.#describe(file);
    return {
      type: mediaTypeOf(path),
      etag: `W/"${hash}"`,
      read: async (encoding) => {
        const used = CompressedFiles.accepts(path, bytes) ? encoding : undefined;
        const compressed = used && (await this.#compressed.find(file, hash, used));
        return compressed === undefined
          ? { body: createReadStream(file), bytes, encoding: undefined }
          : { body: createReadStream(compressed.path), bytes: compressed.bytes, encoding: used };
      },
    };
  }

  /** Compresses what is not compressed yet, before someone asks for it. A file that is asked for meanwhile is the next one. */
  async compressAll(signal: AbortSignal): Promise<void> {
    for (const [path, file] of await this.#files) {
      if (signal.aborted) {
        return;
      }
      const { hash, bytes } = await this.#describe(file);
      if (CompressedFiles.accepts(path, bytes)) {
        await this.#compressed.add(file, hash, "br");
      }
    }
  }

  #describe(file: string): Promise<{ readonly hash: string; readonly bytes: number }> {
    return this.#hashes.getOrInsertComputed(file, describe);
  }
}

async function describe(file: string): Promise<{ readonly hash: string; readonly bytes: number }> {
  const content = await readFile(file);
  return { hash: createHash("sha256").update(content).digest("base64url"), bytes: content.length };
}
