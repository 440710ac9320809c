import { mkdir, mkdtempDisposable, writeFile } from "node:fs/promises";
import { request } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createListeners } from "@flowgate/base/listeners";
import { hashArgon2id } from "@flowgate/base/password-hash";
import type { Certificate, FlowCors } from "../src/flow-settings.ts";
import { createAuthority, issueServer } from "../../../test/certificates.ts";
import { type Reply, send } from "../../../test/e2e/rest.ts";
import { type OpenedRuntime, revision, runtimeUnderTest } from "./builders.ts";
import { endpoint, functionNode, onTab, tab } from "./flow-builders.ts";
import { nodesOf, templatesOf } from "./modules/write-modules.ts";
import { writeFiles } from "./planted-code.ts";

const bcryptHash = "$2b$08$wuAqPiKJlVN27eF5qJp.RuQYuy6ZYONW7a/UWYxDTtwKFCdB8F19y";
const cors: FlowCors = { origins: ["https://app.example"], methods: ["GET"], credentials: false };

const flows = [
  ...endpoint("hello", `msg.payload = "hello"`),
  tab("T"),
  { id: "socket", type: "websocket-listener", path: "/socket", wholemsg: "false" },
  { id: "socket-in", type: "websocket in", z: "T", x: 1, y: 1, server: "socket", client: "", wires: [[]] },
  {
    ...functionNode("writer", {
      z: "T",
      initialize: `try { fs.writeFileSync(global.get("folder"), "x"); node.warn("written") } catch (error) { node.warn(error.code) }`,
    }),
    libs: [{ var: "fs", module: "fs" }],
  },
];

/** The status of the response to the opening of a WebSocket. */
function upgrade(
  port: number,
  path: string,
  headers: Readonly<Record<string, string>> = {},
): Promise<number | undefined> {
  const { promise, resolve, reject } = Promise.withResolvers<number | undefined>();
  const opening = {
    Connection: "Upgrade",
    Upgrade: "websocket",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
  };
  const sent = request({ host: "127.0.0.1", port, path, headers: { ...opening, ...headers } });
  sent.on("upgrade", (response, socket) => {
    socket.destroy();
    resolve(response.statusCode);
  });
  sent.on("response", (response) => {
    response.resume();
    resolve(response.statusCode);
  });
  sent.on("error", reject);
  sent.end();
  return promise;
}

function basic(username: string, password: string): { authorization: string } {
  return { authorization: `Basic ${Buffer.from(`${username}:${password}`).toString("base64")}` };
}

describe("with a path, a user, and files", () => {
  let folder: Awaited<ReturnType<typeof mkdtempDisposable>>;
  let runtime: OpenedRuntime;

  beforeAll(async () => {
    folder = await mkdtempDisposable(join(tmpdir(), "flowgate-static-"));
    const path = join(folder.path, "files");
    await mkdir(path);
    await writeFile(join(path, "a.txt"), "a file");
    await writeFile(join(path, ".hidden"), "hidden");
    await writeFile(join(folder.path, "secret"), "secret");
    runtime = await runtimeUnderTest({
      globalContext: { folder: join(path, "written") },
      http: {
        root: "/api",
        auth: { username: "ada", password: await hashArgon2id("löwe") },
        cors,
        static: [
          { path, root: "/files", maxAgeSeconds: 60, cors },
          { path, root: "/", maxAgeSeconds: 0 },
        ],
        staticAuth: { username: "bob", password: bcryptHash },
      },
    });
    await runtime.apply(revision(1, flows), "full");
  });
  afterAll(async () => {
    await runtime?.[Symbol.asyncDispose]();
    await folder?.[Symbol.asyncDispose]();
  });

  const get = (path: string, headers: Readonly<Record<string, string>> = {}, method = "GET"): Promise<Reply> =>
    send(`http://127.0.0.1:${runtime.status().httpPort}`, method, path, { headers });
  const ada = basic("ada", "löwe");

  test("requests need the user of what they ask for", async () => {
    const none = await get("/api/hello");
    expect([none.status, none.headers["www-authenticate"]]).toEqual([401, 'Basic realm="flows", charset="UTF-8"']);
    for (const headers of [
      basic("ada", "lowe"),
      basic("bob", "löwe"),
      { authorization: "Basic x" },
      { authorization: "Bearer x" },
    ]) {
      expect((await get("/api/hello", headers)).status).toBe(401);
    }
    for (const path of ["/api/hello", "/API/hello", "/api/hello?x"]) {
      expect((await get(path)).status).toBe(401);
      expect(await get(path, ada)).toMatchObject({ status: 200, body: "hello" });
    }
    expect((await get("/files/a.txt")).status).toBe(401);
    expect((await get("/files/a.txt", ada)).status).toBe(401);
    // Without the path, there is no HTTP-in node, and files have another user.
    expect((await get("/hello", ada)).status).toBe(401);
  });

  test("many wrong passwords at once are rejected before they are checked", async () => {
    const statuses = await Promise.all(
      Array.from({ length: 40 }, async (_, at) => (await get("/api/hello", basic("ada", `${at}`))).status),
    );
    expect(new Set(statuses)).toEqual(new Set([401, 503]));
    expect((await get("/api/hello", ada)).status).toBe(200);
  });

  test("a WebSocket needs the user too", async () => {
    const { httpPort } = runtime.status();
    expect(await upgrade(httpPort, "/api/socket")).toBe(401);
    expect(await upgrade(httpPort, "/api/socket", basic("ada", "wrong"))).toBe(401);
    expect(await upgrade(httpPort, "/api/socket", ada)).toBe(101);
  });

  test("pages of the origins may read responses", async () => {
    const headers = { origin: "https://app.example", "access-control-request-method": "GET" };
    const preflight = await get("/api/hello", headers, "OPTIONS");
    expect([preflight.status, preflight.headers["access-control-allow-origin"]]).toEqual([204, "https://app.example"]);
    const other = await get("/api/hello", { ...ada, origin: "https://other.example" });
    expect(other.headers["access-control-allow-origin"]).toBeUndefined();
    expect((await get("/api/hello", { origin: headers.origin }, "OPTIONS")).status).toBe(401);
  });

  test("flows can't write the files", async () => {
    expect(await runtime.untilLogged(/ERR_ACCESS_DENIED/)).toMatchObject({ nodeId: "writer" });
  });
});

describe("with files that need no user", () => {
  test("serves regular files in the folder only", async () => {
    await using folder = await mkdtempDisposable(join(tmpdir(), "flowgate-static-"));
    const path = join(folder.path, "files");
    await mkdir(join(path, "docs"), { recursive: true });
    await writeFile(join(path, "a.txt"), "a file");
    await writeFile(join(path, "docs", "index.html"), "<p>index");
    await writeFile(join(path, ".hidden"), "hidden");
    await writeFile(join(folder.path, "secret"), "secret");
    const http = { root: "/", static: [{ path, root: "/files", maxAgeSeconds: 60 }] };
    await using runtime = await runtimeUnderTest({ http });
    await runtime.apply(revision(1, flows), "full");
    const get = (url: string) => send(`http://127.0.0.1:${runtime.status().httpPort}`, "GET", url);
    const file = await get("/files/a.txt");
    expect(file).toMatchObject({ status: 200, body: "a file" });
    expect(file.headers).toMatchObject({
      "cache-control": "public, max-age=60",
      "content-type": "text/plain; charset=UTF-8",
    });
    expect((await get("/files/docs/")).body).toBe("<p>index");
    expect((await get("/hello")).body).toBe("hello");
    for (const url of [
      "/a.txt",
      "/files/../secret",
      "/files/%2e%2e/secret",
      "/files/..%2fsecret",
      "/files/.hidden",
      "/files/%zz",
    ]) {
      const { status, body } = await get(url);
      expect([url, status >= 400, body.includes(folder.path)]).toEqual([url, true, false]);
    }
  });
});

test("without nodes for WebSockets, a request to upgrade does not stay open", async () => {
  const auth = { username: "ada", password: await hashArgon2id("löwe") };
  await using runtime = await runtimeUnderTest({ http: { root: "/", auth, static: [] } });
  await runtime.apply(revision(1, endpoint("hello", `msg.payload = "hello"`)), "full");
  const { httpPort } = runtime.status();
  for (const protocol of ["websocket", "h2c"]) {
    expect(await upgrade(httpPort, "/hello", { Upgrade: protocol })).toBe(401);
    // HTTP-in nodes do not respond to such requests, without a password either. The connection is closed.
    const opening = upgrade(httpPort, "/hello", { Upgrade: protocol, ...basic("ada", "löwe") });
    await expect(opening).rejects.toThrow("socket hang up");
  }
});

test("serves TLS, and changed certificates without a restart", async () => {
  const authority = createAuthority();
  const changes = createListeners<Certificate>();
  let certificate: Certificate = { ...issueServer(authority), minVersion: "TLSv1.2" };
  const certificates = {
    current: () => certificate,
    onChange: (listener: (next: Certificate) => void) => changes.add(listener),
  };
  await using runtime = await runtimeUnderTest({ certificates });
  await runtime.apply(revision(1, flows), "full");
  const url = `https://127.0.0.1:${runtime.status().httpPort}`;
  expect((await send(url, "GET", "/hello", { tls: { ca: authority.cert } })).body).toBe("hello");
  await expect(send(url.replace("https", "http"), "GET", "/hello")).rejects.toThrow("socket hang up");
  const renewed = createAuthority("Another authority");
  certificate = { ...issueServer(renewed), minVersion: "TLSv1.2" };
  changes.notify(certificate);
  await expect
    .poll(async () => (await send(url, "GET", "/hello", { tls: { ca: renewed.cert } }).catch(String)) as unknown)
    .toMatchObject({ body: "hello" });
  // The next process has it from its start.
  await runtime.restart(revision(2, flows));
  const next = `https://127.0.0.1:${runtime.status().httpPort}`;
  expect((await send(next, "GET", "/hello", { tls: { ca: renewed.cert } })).body).toBe("hello");
});

test("preflight requests are answered for the routes of all nodes, also without an HTTP-in node", async () => {
  await using runtime = await runtimeUnderTest({ http: { root: "/", cors, static: [] } }, (modulesDir) =>
    writeFiles(join(modulesDir, "node_modules/routes"), {
      "package.json": JSON.stringify({ name: "routes", version: "1.0.0", "node-red": { nodes: { all: "all.js" } } }),
      "all.html": templatesOf(["routes"]),
      "all.js": `module.exports = (RED) => {
          RED.httpNode.post("/route", (request, response) => response.end());
          (${nodesOf(["routes"]).replace("module.exports = ", "").replace(/;$/, "")})(RED);
        };`,
    }),
  );
  await runtime.apply(revision(1, [tab("T"), { ...onTab("a"), type: "routes", wires: [[]] }]), "full");
  const headers = { origin: "https://app.example", "access-control-request-method": "POST" };
  const { status, headers: answered } = await send(
    `http://127.0.0.1:${runtime.status().httpPort}`,
    "OPTIONS",
    "/route",
    { headers },
  );
  expect([status, answered["access-control-allow-origin"]]).toEqual([204, "https://app.example"]);
});
