import { randomBytes } from "node:crypto";
import { readFile } from "node:fs/promises";
import { basename, join, relative } from "node:path";
import fastifyStatic from "@fastify/static";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { hasCode } from "@flowgate/base/error-code";
import { errorResponse } from "../http/error-response.ts";
import { contextOf } from "./forward.ts";
import { securityHeaders, sendError, sendPage } from "./html-page.ts";

export const consolePrefix = "/console";

/**
 * The web console, built into this folder: its files, which the build has compressed, and its page at every other path below `/console`,
 * since the page finds by its URL what to show.
 */
export async function addConsole(app: FastifyInstance, folder: string): Promise<void> {
  const send = (request: FastifyRequest, reply: FastifyReply) => sendConsole(folder, request, reply);
  app.addHook("onRequest", async (_, reply) => void reply.headers(headers));
  app.setNotFoundHandler((request, reply) =>
    // A page that was opened before an update may still request its old files.
    contextOf(request).path.startsWith(`${consolePrefix}/assets/`)
      ? sendError(reply, errorResponse(404, "the console has no such file"))
      : send(request, reply),
  );
  app.get("/", send);
  await app.register(fastifyStatic, {
    root: folder,
    preCompressed: true,
    index: false,
    acceptRanges: false,
    cacheControl: false,
    etag: false,
    lastModified: false,
    decorateReply: false,
    suppressWarning: true,
    allowedPath: (path) => path !== "/index.html" && !/\.(?:br|gz)$/.test(path),
    setHeaders(reply, path) {
      if (relative(folder, path).startsWith("assets")) {
        // The names of these files have a hash of their content.
        const etag = `W/"${basename(path).replace(/\.(?:br|gz)$/, "")}"`;
        reply.headers({ etag, "cache-control": "public, max-age=31536000, immutable" });
      }
    },
  });
}

// The referrer is not left out completely, or browsers would send `Origin: null` with the form that signs out.
const headers = { ...securityHeaders, "referrer-policy": "same-origin", "cache-control": "no-cache" };

/** `nonce` permits the style sheets that scripts of the console add. */
function policyFor(nonce: string): string {
  return `default-src 'none'; script-src 'self'; style-src 'self' 'nonce-${nonce}'; img-src 'self' data:; font-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'`;
}

async function sendConsole(folder: string, request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> {
  const page = await readPage(folder);
  if (page === undefined) {
    return sendPage(
      reply,
      503,
      "No console",
      "<p>The web console is not built: run <code>npm run build:console</code>.</p>",
    );
  }
  const nonce = randomBytes(16).toString("base64url");
  const prefix = pathToConsole(contextOf(request).path);
  const html = page.replaceAll("CSP_NONCE", nonce).replaceAll(/ (src|href)="\.\//g, ` $1="${prefix}`);
  return reply.header("content-security-policy", policyFor(nonce)).type("text/html; charset=utf-8").send(html);
}

/** Undefined: the console was not built, as in a checkout. */
async function readPage(folder: string): Promise<string | undefined> {
  try {
    return await readFile(join(folder, "index.html"), "utf8");
  } catch (error) {
    if (hasCode(error, "ENOENT")) {
      return undefined;
    }
    throw error;
  }
}

/** The path from a page to the files of the console, relatively, so that it also works below a path prefix of a proxy. */
function pathToConsole(path: string): string {
  const levels = path.split("/").length - consolePrefix.split("/").length;
  return levels === 0 ? `${consolePrefix.slice(1)}/` : `./${"../".repeat(levels - 1)}`;
}
