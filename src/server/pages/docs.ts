import { createHash } from "node:crypto";
import { readFile } from "node:fs/promises";
import { findPackageJSON } from "node:module";
import { dirname, extname, join } from "node:path";
import type { FastifyInstance } from "fastify";
import { securityHeaders } from "./html-page.ts";

/** `/openapi.json`: the OpenAPI document. `/docs`: Swagger UI for it, with our own style. All files are served from here. */
export async function addDocs(
  app: FastifyInstance,
  { canSignIn }: { readonly canSignIn: () => boolean },
): Promise<void> {
  app.addHook("onRequest", async (_, reply) => {
    reply.headers({ ...securityHeaders, "content-security-policy": policy, "cache-control": "no-cache" });
  });
  const page = await readFile(join(pageDir, "index.html"), "utf8");
  const linked = page.replace("<nav ", `${signInLink}\n    <nav `);
  const [pageTag, linkedTag] = [etagOf(page), etagOf(linked)];
  app.get("/docs", (_, reply) => {
    const [html, etag] = canSignIn() ? [linked, linkedTag] : [page, pageTag];
    return reply.header("etag", etag).type(types.html).send(html);
  });
  await Promise.all([
    addFile(app, "/openapi.json", packageDir, "openapi.json"),
    ...pageFiles.map((name) => addFile(app, `/docs/${name}`, pageDir, name)),
    ...swaggerFiles.map((name) => addFile(app, `/docs/${name}`, swaggerDir, name)),
  ]);
}

const packageDir = dirname(findPackageJSON(import.meta.url) ?? ".");
const pageDir = join(packageDir, "docs-page");
const swaggerDir = dirname(findPackageJSON("swagger-ui-dist", import.meta.url) ?? ".");

const signInLink = '<a id="sign-in" href="sign-in?return=/docs">Sign in</a>';

const pageFiles = ["start.js", "resolve-parts.js", "contents.js", "follow-variant.js", "guard-flows.js", "style.css"];
const swaggerFiles = ["swagger-ui.css", "swagger-ui-bundle.js", "favicon-32x32.png"];

const types = {
  html: "text/html; charset=utf-8",
  css: "text/css; charset=utf-8",
  js: "text/javascript; charset=utf-8",
  json: "application/json",
  png: "image/png",
};

// Swagger UI's style sheet has its icons as data URLs.
const policy =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

async function addFile(app: FastifyInstance, path: string, dir: string, name: string): Promise<void> {
  const type = types[extname(name).slice(1) as keyof typeof types];
  // Of the content: the files of a package have no times of their own.
  const etag = etagOf(await readFile(join(dir, name)));
  app.get(path, (_, reply) => reply.header("etag", etag).type(type).sendFile(name, dir, { contentType: false }));
}

function etagOf(content: string | Buffer): string {
  return `"${createHash("sha256").update(content).digest("base64url")}"`;
}
