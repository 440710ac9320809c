import { once } from "node:events";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { WebSocket } from "ws";
import { deploy } from "./deploy.ts";
import { endpoint } from "./flow-builders.ts";
import { bearer, form, type Reply, send } from "./rest.ts";
import { eventually, type Service, startService } from "./service.ts";
import { login, passwordOf, user } from "./users.ts";
import { toolsUrl } from "./editor.ts";

/**
 * Code of a function node that leaves the vm, and makes every response of its process a page, or a script, which takes the token of whoever
 * opens it.
 */
const hostile = `const { process } = Buffer.constructor("return globalThis")();
  const http = process.getBuiltinModule("http");
  const { ServerResponse } = http;
  const evil = "<script>stolen = localStorage.getItem('auth-tokens')</script>";
  const { writeHead, end } = ServerResponse.prototype;
  ServerResponse.prototype.end = function () {
    if (!this.headersSent) {
      this.statusCode = 200;
      this.removeHeader("content-length");
      this.removeHeader("content-security-policy");
      this.removeHeader("x-content-type-options");
      this.setHeader("content-type", String(this.req?.url).includes("script") ? "text/javascript" : "text/html");
      this.setHeader("set-cookie", "evil=1");
      this.setHeader("access-control-allow-origin", "*");
    }
    return end.call(this, evil);
  };
  ServerResponse.prototype.write = () => true;
  msg.payload = "patched"`;

describe("a flow that controls its process, and a page that has the session of an editor", () => {
  let service: Service;
  let url: string;
  let token: string;
  beforeAll(async () => {
    service = await startService({
      config: { adminAuth: { users: [user("admin", "*")] }, nodeRed: { port: 0, editor: true } },
    });
    url = toolsUrl(service);
    const body = new URLSearchParams({
      client_id: "node-red-editor",
      grant_type: "password",
      scope: "",
      username: "admin",
      password: passwordOf("admin"),
    });
    const reply = await send(url, "POST", "/auth/token", { headers: form, body: body.toString() });
    token = (reply.json() as { access_token: string }).access_token;
  });
  afterAll(() => service?.[Symbol.asyncDispose]());

  const get = (path: string, headers: Readonly<Record<string, string>> = {}): Promise<Reply> =>
    send(url, "GET", path, { headers: { ...bearer(token), ...headers } });

  test("the flow supplies no page and no script", async () => {
    const admin = bearer(await login(service, { username: "admin" }));
    await deploy(service, { flows: endpoint("/patch", hostile) }, "full", admin);
    expect(await service.get("/patch", admin)).toContain("stolen");

    for (const [path, accept] of [
      ["/", "text/html"],
      ["/nodes", "text/html"],
      ["/nodes/node-red/inject", "text/html"],
      ["/nodes/messages?lng=en-US", "application/json"],
      ["/plugins", "text/html"],
      ["/plugins/messages?lng=en-US", "application/json"],
      ["/icons", "application/json"],
      ["/icons/node-red/inject.svg", "image/*"],
      ["/locales/node-red?lng=en-US", "application/json"],
      ["/theme", "application/json"],
      ["/debug/view/view.html", "text/html"],
      ["/debug/view/debug-utils.js", "*/*"],
      ["/red/red.min.js", "*/*"],
    ] as const) {
      const reply = await get(path, { accept });
      expect({ path, status: reply.status, isEvil: reply.body.includes("stolen") }).toEqual({
        path,
        status: 200,
        isEvil: false,
      });
    }
    // What the runtime process answers is data, whatever it says.
    for (const path of [
      "/settings",
      "/context/global",
      "/diagnostics",
      "/udp-ports/1?script",
      "/debug/view/other.js",
    ]) {
      const { headers, status } = await get(path);
      const { "content-type": type = "", "set-cookie": cookie, "access-control-allow-origin": origin } = headers;
      expect({ path, isCode: status < 300 && /html|script|xml/.test(type), cookie, origin }).toEqual({
        path,
        isCode: false,
        cookie: undefined,
        origin: undefined,
      });
      expect(headers["x-content-type-options"]).toBe("nosniff");
    }
  });

  test("names that all objects have are no names of files", async () => {
    for (const name of ["constructor", "__proto__", "toString.json"]) {
      const { status, body } = await get(`/locales/${name}?lng=en-US`);
      expect({ name, status, body }).toEqual({ name, status: 200, body: "{}" });
    }
  });

  test("the session of the editor is worth nothing at the API", async () => {
    for (const path of ["/tokens", "/flows", "/settings", "/audit"]) {
      expect((await service.send("GET", path, { headers: bearer(token) })).status).toBe(401);
    }
    const admin = await login(service, { username: "admin" });
    const fromEditor = { ...bearer(admin), origin: url };
    expect((await service.send("GET", "/tokens", { headers: fromEditor })).status).toBe(403);
    expect((await service.send("GET", "/tokens", { headers: bearer(admin) })).status).toBe(200);
    // And the other way round.
    expect((await send(url, "GET", "/flows", { headers: bearer(admin) })).status).toBe(401);
    for (const path of ["/tokens", "/audit", "/revisions", "/flowgate.v1.TokensService/ListTokens"]) {
      expect((await get(path)).status).toBe(404);
    }
  });

  test.each([
    ["a page of another origin", { origin: "http://evil.example" }, 403],
    ["a page of the API's port", { origin: "http://127.0.0.1:1" }, 403],
    ["a page without an origin", { origin: "null" }, 403],
    ["a rebound name", { host: "evil.example", origin: "http://evil.example" }, 421],
    ["a forged name of a proxy", { "x-forwarded-host": "evil.example", origin: "http://evil.example" }, 403],
  ])("%s can't open the websocket", async (_, headers, status) => {
    const socket = new WebSocket(`${url.replace("http", "ws")}/comms`, { headers });
    socket.on("error", () => {});
    const [, response] = (await once(socket, "unexpected-response")) as [unknown, { statusCode?: number }];
    socket.terminate();
    expect(response.statusCode).toBe(status);
  });

  test("the link to a revision leads to the host of the editor, and nowhere behind a proxy, whose Host may be its own", async () => {
    const admin = bearer(await login(service, { username: "admin" }));
    const watchLinks = async (headers: Readonly<Record<string, string>>) => {
      const socket = new WebSocket(`${url.replace("http", "ws")}/comms`, { headers: { origin: url, ...headers } });
      const seen: string[] = [];
      socket.on("message", (data: Buffer) => seen.push(data.toString()));
      await once(socket, "open");
      socket.send(JSON.stringify({ auth: token }));
      socket.send(JSON.stringify({ subscribe: "notification/#" }));
      await eventually(async () => expect(seen.join()).toContain('"auth":"ok"'));
      return { seen, [Symbol.dispose]: () => socket.terminate() };
    };
    using direct = await watchLinks({});
    using proxied = await watchLinks({ "x-forwarded-for": "192.0.2.7" });
    const rev = await deploy(service, { flows: endpoint("/first", "return msg") }, "full", admin);
    const linkOf = (name: string) =>
      `${service.url}/console/history/${encodeURIComponent(name).replaceAll("_", "&#95;")}`;
    await eventually(async () => expect(direct.seen.join()).toContain(linkOf(rev)));
    const next = await deploy(service, { flows: endpoint("/next", "return msg") }, "full", admin);
    // Messages come in order.
    await eventually(async () => expect(proxied.seen.join()).toContain(next));
    expect(proxied.seen.join()).toContain(rev);
    expect(proxied.seen.join()).not.toContain("/console/");
  });

  test("the websocket sends nothing without a valid token of a tool", async () => {
    const admin = await login(service, { username: "admin" });
    for (const auth of [admin, "", "x".repeat(43)]) {
      const socket = new WebSocket(`${url.replace("http", "ws")}/comms`, { headers: { origin: url } });
      const received: string[] = [];
      socket.on("message", (data: Buffer) => received.push(data.toString()));
      await once(socket, "open");
      socket.send(JSON.stringify({ auth }));
      socket.send(JSON.stringify({ subscribe: "status/#" }));
      await once(socket, "close");
      expect(received).toEqual(['{"auth":"fail"}']);
    }
  });
});
