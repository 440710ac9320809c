import { readFile } from "node:fs/promises";
import { describe, expect, test } from "vitest";
import { openServer } from "../../../src/server/open-server.ts";
import { createLog } from "../../../src/telemetry/log.ts";
import { createRoutes } from "../../../src/services/api.ts";

const open = (docs?: boolean) =>
  openServer({
    host: "127.0.0.1",
    port: 0,
    log: createLog({ level: "silent" }),
    routes: createRoutes({
      auth: {},
      flows: {},
      revisions: {},
      proposals: {},
      runtime: {},
      context: {},
      modules: {},
      library: {},
      settings: {},
      tokens: {},
      audit: {},
      events: {},
      logs: {},
    } as never),
    gate: () => {},
    interceptors: [],
    ready: () => ({ ready: true }),
    limits: { bodyBytes: 1024 },
    ...(docs === undefined ? {} : { docs }),
  });

const files = [
  ["/openapi.json", "application/json"],
  ["/docs", "text/html; charset=utf-8"],
  ["/docs/start.js", "text/javascript; charset=utf-8"],
  ["/docs/contents.js", "text/javascript; charset=utf-8"],
  ["/docs/follow-variant.js", "text/javascript; charset=utf-8"],
  ["/docs/guard-flows.js", "text/javascript; charset=utf-8"],
  ["/docs/resolve-parts.js", "text/javascript; charset=utf-8"],
  ["/docs/style.css", "text/css; charset=utf-8"],
  ["/docs/swagger-ui.css", "text/css; charset=utf-8"],
  ["/docs/swagger-ui-bundle.js", "text/javascript; charset=utf-8"],
  ["/docs/favicon-32x32.png", "image/png"],
] as const;

describe("the API description", () => {
  test("is the committed document, byte for byte", async () => {
    await using server = await open(true);
    const response = await fetch(`${server.url}/openapi.json`);
    expect(await response.text()).toBe(await readFile(new URL("../../../openapi.json", import.meta.url), "utf8"));
    expect(await (await fetch(`${server.url}/openapi.json`)).json()).toMatchObject({ servers: [{ url: "/" }] });
  });

  test.each(files)("%s is served as %s, with a strict security policy and an ETag", async (path, type) => {
    await using server = await open(true);
    const response = await fetch(server.url + path);
    expect(response.status).toBe(200);
    expect((await response.bytes()).length).toBe(Number(response.headers.get("content-length")));
    expect(Object.fromEntries(response.headers)).toMatchObject({
      "content-type": type,
      "content-security-policy":
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
      "x-content-type-options": "nosniff",
      "x-frame-options": "DENY",
      "referrer-policy": "no-referrer",
      "cross-origin-opener-policy": "same-origin",
      "cross-origin-resource-policy": "same-origin",
      "permissions-policy": expect.stringContaining("camera=()"),
      "cache-control": "no-cache",
      etag: expect.stringMatching(/^"[\w-]{43}"$/),
    });
    const etag = response.headers.get("etag") ?? "";
    for (const [ifNoneMatch, status] of [
      [etag, 304],
      [`W/${etag}, "other"`, 304],
      ["*", 304],
      ['"other"', 200],
    ] as const) {
      const again = await fetch(server.url + path, { headers: { "if-none-match": ifNoneMatch } });
      expect([again.status, again.headers.get("etag")]).toEqual([status, etag]);
      await again.bytes();
    }
    const head = await fetch(server.url + path, { method: "HEAD" });
    expect([head.status, await head.text(), head.headers.get("content-length")]).toEqual([
      200,
      "",
      response.headers.get("content-length"),
    ]);
    const post = await fetch(server.url + path, { method: "POST" });
    expect([post.status, post.headers.get("allow"), await post.json()]).toEqual([
      405,
      "GET, HEAD",
      { code: "method_not_allowed", message: `${path} supports only GET` },
    ]);
  });

  test("/ redirects to the page, also below a path prefix of a proxy, and is 404 without docs", async () => {
    await using server = await open(true);
    for (const method of ["GET", "HEAD"]) {
      const response = await fetch(`${server.url}/`, { method, redirect: "manual" });
      expect([response.status, response.headers.get("location"), await response.text()]).toEqual([302, "docs", ""]);
    }
    expect((await fetch(server.url)).url).toBe(`${server.url}/docs`);
    expect((await fetch(server.url, { method: "POST" })).status).toBe(405);
    await using without = await open();
    expect((await fetch(`${without.url}/`)).status).toBe(404);
  });

  test("has neither external resources nor inline scripts", async () => {
    await using server = await open(true);
    const page = await (await fetch(`${server.url}/docs`)).text();
    expect(page).not.toMatch(/https?:|src="\/\/|<script(?![^>]* src=)|<style| style=| on\w+=/i);
    const script = await (await fetch(`${server.url}/docs/start.js`)).text();
    const assets = [
      ...page.matchAll(/(?:src|href)="([^"]+)"/g),
      ...script.matchAll(/from "\.(\/[^"]+)"/g).map(([, name]) => ["", `docs${name}`]),
    ].map(([, address]) => `/${address}`);
    expect(assets.toSorted()).toEqual(
      files
        .map(([path]) => path)
        .filter((path) => path.startsWith("/docs/"))
        .toSorted(),
    );
  });

  test.each([undefined, false])("is not served if the option `docs` is %s", async (docs) => {
    await using server = await open(docs);
    for (const [path] of files) {
      expect((await fetch(server.url + path)).status).toBe(404);
    }
  });
});
