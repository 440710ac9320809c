import { createHash } from "node:crypto";
import { readFile } from "node:fs/promises";
import { findPackageJSON } from "node:module";
import { dirname, extname, join } from "node:path";
import { createEndpoint } from "../pipeline/router.ts";
import type { RequestRoute } from "../pipeline/request-context.ts";

/**
 * `/openapi.json`: the OpenAPI document. `/docs`: Swagger UI for it, with our own style. All files are served from here. `/`
 * redirects there: relatively, so that it also works below a path prefix of a proxy, and temporarily, since a service
 * configured without docs has nothing at `/`.
 */
export function createDocs(hasSignIn: boolean): [string, RequestRoute][] {
  return [
    createEndpoint("/", false, () => ({ status: 302, headers: { location: "docs" }, body: undefined })),
    createFile("/openapi.json", "application/json", () => readFile(join(packageDir, "openapi.json"))),
    createFile("/docs", types.html, async () => {
      const page = await readFile(join(pageDir, "index.html"));
      return hasSignIn ? Buffer.from(page.toString().replace("<nav ", `${signInLink}\n    <nav `)) : page;
    }),
    ...pageFiles.map((name) => createFile(`/docs/${name}`, typeOf(name), () => readFile(join(pageDir, name)))),
    ...swaggerFiles.map((name) => createFile(`/docs/${name}`, typeOf(name), () => readFile(join(swaggerDir, name)))),
  ];
}

const packageDir = dirname(findPackageJSON(import.meta.url) ?? ".");
const pageDir = join(packageDir, "docs-page");
const swaggerDir = dirname(findPackageJSON("swagger-ui-dist", import.meta.url) ?? ".");

const signInLink = '<a id="sign-in" href="sign-in?return=/docs">Sign in</a>';

const pageFiles = ["start.js", "contents.js", "follow-variant.js", "guard-flows.js", "style.css"];
const swaggerFiles = ["swagger-ui.css", "swagger-ui-bundle.js", "favicon-32x32.png"];

const types = {
  html: "text/html; charset=utf-8",
  css: "text/css; charset=utf-8",
  js: "text/javascript; charset=utf-8",
  png: "image/png",
};

function typeOf(name: string): string {
  return types[extname(name).slice(1) as keyof typeof types];
}

const securityHeaders = {
  // Swagger UI's style sheet has its icons as data URLs.
  "content-security-policy":
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  "x-content-type-options": "nosniff",
  "x-frame-options": "DENY",
  "referrer-policy": "no-referrer",
  "cross-origin-opener-policy": "same-origin",
  "cross-origin-resource-policy": "same-origin",
  "permissions-policy":
    "accelerometer=(), camera=(), display-capture=(), geolocation=(), gyroscope=(), microphone=(), payment=(), usb=()",
};

/** Serves a file, which is read on the first request. */
function createFile(path: string, type: string, read: () => Buffer | Promise<Buffer>): [string, RequestRoute] {
  let file: Promise<{ body: Buffer; etag: string }> | undefined;
  return createEndpoint(path, false, async ({ headers: { "if-none-match": ifNoneMatch } }) => {
    file ??= Promise.resolve(read()).then((body) => ({
      body,
      etag: `"${createHash("sha256").update(body).digest("base64url")}"`,
    }));
    const { body, etag } = await file;
    const headers = { ...securityHeaders, etag, "cache-control": "no-cache" };
    return matchesEtag(ifNoneMatch, etag)
      ? { status: 304, headers, body: undefined }
      : { status: 200, headers: { ...headers, "content-type": type }, body };
  });
}

/** Weak comparison with If-None-Match (RFC 9110, section 13.1.2). */
function matchesEtag(ifNoneMatch: string | undefined, etag: string): boolean {
  return ifNoneMatch !== undefined && (ifNoneMatch.trim() === "*" || ifNoneMatch.includes(etag));
}
