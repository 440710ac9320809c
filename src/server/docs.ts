import { createHash } from "node:crypto";
import { readFile } from "node:fs/promises";
import { findPackageJSON } from "node:module";
import { dirname, join } from "node:path";
import { createEndpoint } from "./pipeline/endpoint.ts";
import type { Route } from "./pipeline/request-context.ts";

/**
 * `/openapi.json`: the OpenAPI document. `/docs`: Swagger UI for it, with all assets served from its npm package. `/`
 * redirects there: relatively, so that it also works below a path prefix of a proxy, and temporarily, since a service
 * configured without docs has nothing at `/`.
 */
export function createDocs(): [string, Route][] {
  return [
    createEndpoint("/", false, () => ({ status: 302, headers: { location: "docs" }, body: undefined })),
    createFile("/openapi.json", "application/json", () => readFile(join(packageDir, "openapi.json"))),
    createFile("/docs", "text/html; charset=utf-8", () => Buffer.from(page)),
    createFile("/docs/start.js", "text/javascript; charset=utf-8", () => Buffer.from(start)),
    ...assets.map(([name, type]) => createFile(`/docs/${name}`, type, () => readFile(join(swaggerDir, name)))),
  ];
}

const packageDir = dirname(findPackageJSON(import.meta.url) ?? ".");
const swaggerDir = dirname(findPackageJSON("swagger-ui-dist", import.meta.url) ?? ".");

const assets = [
  ["swagger-ui.css", "text/css; charset=utf-8"],
  ["swagger-ui-bundle.js", "text/javascript; charset=utf-8"],
  ["favicon-32x32.png", "image/png"],
] as const;

/** URLs are relative, so that the page also works below a path prefix of a proxy. */
const page = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Flowgate API</title>
<link rel="icon" href="docs/favicon-32x32.png">
<link rel="stylesheet" href="docs/swagger-ui.css">
<script src="docs/swagger-ui-bundle.js" defer></script>
<script src="docs/start.js" defer></script>
</head>
<body>
<div id="api"></div>
</body>
</html>
`;

/** `validatorUrl` is off: it would send the URL of this service to a third party. */
const start = `SwaggerUIBundle({
  url: "openapi.json",
  dom_id: "#api",
  deepLinking: true,
  validatorUrl: null,
  displayRequestDuration: true,
  defaultModelsExpandDepth: 0,
  tryItOutEnabled: false,
});
`;

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
function createFile(path: string, type: string, read: () => Buffer | Promise<Buffer>): [string, Route] {
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
