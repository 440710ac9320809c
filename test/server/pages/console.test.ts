import { mkdir, mkdtempDisposable, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { brotliCompressSync, gzipSync } from "node:zlib";
import { expect, test } from "vitest";
import { openServer } from "../../../src/server/open-server.ts";
import { createLog } from "../../../src/telemetry/log.ts";
import { sendRequest } from "../../e2e/http-client.ts";

const page = `<!doctype html>
<link rel="icon" href="./icon.svg" />
<meta property="csp-nonce" nonce="CSP_NONCE">
<script type="module" crossorigin src="./assets/index-Dj72GxfV.js" nonce="CSP_NONCE"></script>`;
const script = "export const console = 1;".repeat(100);

/** A server with a small console of the form in which Vite builds it. */
async function openConsole({ isBuilt = true, docs = true } = {}) {
  await using stack = new AsyncDisposableStack();
  const folder = stack.use(await mkdtempDisposable(join(tmpdir(), "flowgate-console-")));
  const console = join(folder.path, "console");
  await mkdir(join(console, "assets"), { recursive: true });
  await writeFile(join(folder.path, "secret"), "secret");
  if (isBuilt) {
    await writeFile(join(console, "index.html"), page);
    await writeFile(join(console, "icon.svg"), "<svg/>");
    const file = join(console, "assets/index-Dj72GxfV.js");
    await writeFile(file, script);
    await writeFile(`${file}.br`, brotliCompressSync(script));
    await writeFile(`${file}.gz`, gzipSync(script));
  }
  const server = stack.use(
    await openServer({
      host: "127.0.0.1",
      port: 0,
      log: createLog({ level: "silent" }),
      routes: () => {},
      gate: () => {},
      interceptors: [],
      ready: () => ({ ready: true }),
      limits: { bodyBytes: 1024 },
      console,
      docs,
    }),
  );
  const resources = stack.move();
  return { url: server.url, [Symbol.asyncDispose]: () => resources.disposeAsync() };
}

const nonceOf = (html: string) => [...new Set([...html.matchAll(/nonce="([^"]*)"/g)].map(([, nonce]) => nonce))];

test.each(["1.1", "2"] as const)("each page has a nonce of its own over HTTP/%s", async (httpVersion) => {
  await using server = await openConsole();
  const client = { name: httpVersion, url: server.url, httpVersion };
  const pages = [await sendRequest(client, "GET", "/console"), await sendRequest(client, "GET", "/console")];
  const nonces = pages.map(({ body }) => nonceOf(body));
  expect(nonces).toEqual([[expect.stringMatching(/^[\w-]{22}$/)], [expect.stringMatching(/^[\w-]{22}$/)]]);
  expect(nonces[0]).not.toEqual(nonces[1]);
  for (const [at, { status, headers }] of pages.entries()) {
    expect([status, headers]).toMatchObject([
      200,
      {
        "content-type": "text/html; charset=utf-8",
        "cache-control": "no-cache",
        "content-security-policy": `default-src 'none'; script-src 'self'; style-src 'self' 'nonce-${nonces[at]?.[0]}'; img-src 'self' data:; font-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'`,
        "x-content-type-options": "nosniff",
        "x-frame-options": "DENY",
        "referrer-policy": "same-origin",
        "cross-origin-opener-policy": "same-origin",
        "cross-origin-resource-policy": "same-origin",
        "permissions-policy": expect.stringContaining("camera=()"),
      },
    ]);
    expect(headers).not.toHaveProperty("etag");
  }
  const head = await sendRequest(client, "HEAD", "/console");
  expect([head.status, head.body]).toEqual([200, ""]);
  expect(head.headers["content-length"]).toBe(pages[0]?.headers["content-length"]);
});

test.each([
  ["/console", "console/"],
  ["/console?tab=1", "console/"],
  ["/console/", "./"],
  ["/console/history", "./"],
  ["/console/index.html", "./"],
  ["/console/history/12", "./../"],
  ["/console/flows/a.b/c%2Fd", "./../../"],
  ["/console/icon.svg.br", "./"],
  ["/console/..%2fsecret", "./"],
])("%s is the page, with paths that work below any prefix", async (path, prefix) => {
  await using server = await openConsole();
  const response = await fetch(server.url + path);
  const html = await response.text();
  expect([response.status, html]).toEqual([200, expect.stringContaining(`src="${prefix}assets/index-Dj72GxfV.js"`)]);
  expect(html).toContain(`href="${prefix}icon.svg"`);
  const [, source = ""] = /src="([^"]+)"/.exec(html) ?? [];
  expect(new URL(source, server.url + path).pathname).toBe("/console/assets/index-Dj72GxfV.js");
});

test.each([
  ["br", "br"],
  ["gzip, deflate, br, zstd", "br"],
  ["gzip", "gzip"],
  ["identity", undefined],
  ["br;q=0, gzip", "gzip"],
])("with Accept-Encoding %s, files are sent as %s", async (accepted, encoding) => {
  await using server = await openConsole();
  const path = "/console/assets/index-Dj72GxfV.js";
  const response = await fetch(server.url + path, { headers: { "accept-encoding": accepted } });
  expect(await response.text()).toBe(script);
  expect(Object.fromEntries(response.headers)).toMatchObject({
    "content-type": "application/javascript; charset=utf-8",
    "cache-control": "public, max-age=31536000, immutable",
    etag: 'W/"index-Dj72GxfV.js"',
    vary: expect.stringMatching(/accept-encoding/i),
    "cross-origin-resource-policy": "same-origin",
  });
  expect(response.headers.get("content-encoding")).toBe(encoding ?? null);
  for (const known of ['W/"index-Dj72GxfV.js"', '"other", W/"index-Dj72GxfV.js"', "*"]) {
    const again = await fetch(server.url + path, { headers: { "accept-encoding": accepted, "if-none-match": known } });
    expect([again.status, await again.text()]).toEqual([304, ""]);
  }
});

test.each([
  "/console/assets/index-old.js",
  "/console/assets/",
  "/console//icon.svg",
  "/console/assets/..%2f..%2f..%2fsecret",
  "/console/assets/..%5c..%5c..%5csecret",
  "/console/../secret",
  "/console/%2e%2e/secret",
  "/console/assets/%2e%2e/%2e%2e/%2e%2e/secret",
  "/console/icon.svg%00",
])("%s is not found", async (path) => {
  await using server = await openConsole();
  const client = { name: "HTTP/2", url: server.url, httpVersion: "2" } as const;
  const { status, body } = await sendRequest(client, "GET", path);
  expect([status, body]).toEqual([404, expect.not.stringContaining("secret")]);
});

test("supports only GET", async () => {
  await using server = await openConsole();
  for (const path of ["/console", "/console/flows", "/console/icon.svg"]) {
    const post = await fetch(server.url + path, { method: "POST" });
    expect([post.status, post.headers.get("allow")]).toEqual([405, "GET, HEAD"]);
  }
});

test("says how to build it if it was not built", async () => {
  await using server = await openConsole({ isBuilt: false });
  for (const path of ["/console", "/console/flows"]) {
    const response = await fetch(server.url + path);
    expect([response.status, await response.text()]).toEqual([503, expect.stringContaining("npm run build:console")]);
  }
});

test("/ redirects to it, relatively", async () => {
  for (const docs of [true, false]) {
    await using server = await openConsole({ docs });
    const response = await fetch(`${server.url}/`, { redirect: "manual" });
    expect([response.status, response.headers.get("location")]).toEqual([302, "console"]);
  }
});
