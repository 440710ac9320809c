import { once } from "node:events";
import { readFile } from "node:fs/promises";
import { createServer } from "node:http";
import { type AddressInfo, connect, createServer as createRelay, type Socket } from "node:net";
import { create, toBinary, toJsonString } from "@bufbuild/protobuf";
import type { Page, Request } from "playwright-core";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { SetFlowsRequestSchema } from "../../gen/flowgate/v1/flows_pb.ts";
import { type Browser, missingBrowser, openBrowser } from "./browser.ts";
import { deploy } from "./deploy.ts";
import { bearer, v2 } from "./rest.ts";
import { type Service, startService, withoutRuntime } from "./service.ts";
import { login, user } from "./users.ts";

if (missingBrowser !== undefined) {
  process.stderr.write(`The tests of foreign pages are skipped: ${missingBrowser}.\n`);
}

/** The part of a response that a page can read. */
type Read = { readonly attempt: string; readonly status: number; readonly text: string };

const evil = create(SetFlowsRequestSchema, { flows: [{ id: "evil", type: "tab", label: "evil" }] });
const setFlows = { json: toJsonString(SetFlowsRequestSchema, evil), bytes: [...toBinary(SetFlowsRequestSchema, evil)] };

/** A foreign web site, on a port to which all host names resolve. */
type Site = AsyncDisposable & {
  readonly port: number;
  /** Simulates DNS rebinding: redirects connections to the name and port of the site to another port. */
  leadTo(port: number): void;
};

async function serveSite(): Promise<Site> {
  const pages = createServer((_request, response) => {
    response.writeHead(200, { "content-type": "text/html", connection: "close" });
    response.end("<!doctype html><title>Foreign</title><body>A page</body>");
  });
  pages.listen(0, "127.0.0.1");
  await once(pages, "listening");
  let leadsTo = (pages.address() as AddressInfo).port;
  const sockets = new Set<Socket>();
  const relay = createRelay((socket) => {
    sockets.add(socket);
    socket.once("close", () => sockets.delete(socket));
    const upstream = connect(leadsTo, "127.0.0.1");
    socket.pipe(upstream).pipe(socket);
    for (const [one, other] of [
      [socket, upstream],
      [upstream, socket],
    ] as const) {
      one.on("error", () => other.destroy());
      one.on("close", () => other.destroy());
    }
  });
  relay.listen(0, "127.0.0.1");
  await once(relay, "listening");
  return {
    port: (relay.address() as AddressInfo).port,
    leadTo: (port) => {
      leadsTo = port;
      // Connections that the browser has opened in advance still lead to the site.
      for (const socket of sockets) {
        socket.destroy();
      }
    },
    async [Symbol.asyncDispose]() {
      pages.close();
      pages.closeAllConnections();
      relay.close();
      await once(relay, "close");
    },
  };
}

/** Runs all attacks of the page, and returns the responses that it could read. */
async function unleash(page: Page, target: string): Promise<Read[]> {
  const requests: Request[] = [];
  page.context().on("request", (request) => requests.push(request));
  const source = await readFile(new URL("../fixtures/e2e/foreign-page.js", import.meta.url), "utf8");
  const read = await page.evaluate<Read[]>(`${source}; attack(${JSON.stringify({ target, setFlows })})`);
  await Promise.all(requests.map((request) => request.response()));
  expect(requests.length).toBeGreaterThan(20);
  return read;
}

const label = "a label that no one else may know";
const mine = { "x-request-id": "mine" };

/** A service with flows to read and change. */
async function startVictim(config: object) {
  const service = await startService({ config: { ...withoutRuntime, log: { level: "debug" }, ...config } });
  /** The number of requests before the current test. */
  let before = 0;
  const victim = Object.assign(service, {
    /** Called before each test. */
    async reset() {
      await deploy(service, { flows: [{ id: "a", type: "tab", label }] }, "full", mine);
      before = requestsOf(service).length;
    },
    flows: async () => (await service.send("GET", "/flows", { headers: { ...v2, ...mine } })).json(),
    requests: () => requestsOf(service).slice(before),
    /** The requests that were served, apart from those of the test. */
    served: () =>
      victim.requests().filter(({ status, requestId }) => status < 400 && requestId !== mine["x-request-id"]),
  });
  await victim.reset();
  return victim;
}

type Victim = Awaited<ReturnType<typeof startVictim>>;

type Logged = { readonly msg: string; readonly requestId: string; readonly path: string; readonly status: number };

function requestsOf(service: Service): Logged[] {
  return service
    .log()
    .split("\n")
    .filter((line) => line.includes('"request completed"'))
    .map((line) => JSON.parse(line) as Logged)
    .filter(({ path }) => path !== "/readyz");
}

describe.skipIf(missingBrowser !== undefined)("a service on loopback", () => {
  let browser: Browser;
  beforeAll(async () => {
    browser = await openBrowser(["--host-resolver-rules=MAP evil.example 127.0.0.1"]);
  });
  afterAll(() => browser?.[Symbol.asyncDispose]());

  describe("that is open to all", () => {
    let service: Victim;
    beforeAll(async () => {
      service = await startVictim({});
    });
    afterAll(() => service?.[Symbol.asyncDispose]());
    beforeEach(() => service.reset());

    test.each(["127.0.0.1", "evil.example"])(
      "neither reveals data to a page of %s nor is changed by it",
      async (host) => {
        await using site = await serveSite();
        await using tab = await browser.openTab();
        const before = await service.flows();
        await tab.page.goto(`http://${host}:${site.port}/`);
        expect(await unleash(tab.page, service.url)).toEqual([]);
        expect(await service.flows()).toEqual(before);
        expect(service.served()).toEqual([]);
        expect(service.requests().filter(({ status }) => status === 403).length).toBeGreaterThan(10);
      },
    );

    test("reveals nothing to a page by DNS rebinding", async () => {
      await using site = await serveSite();
      await using tab = await browser.openTab();
      const before = await service.flows();
      const read = await rebind(tab.page, site, service);
      expect(read.length).toBeGreaterThan(10);
      const refused = read.filter(({ attempt }) => !attempt.endsWith("with a token"));
      for (const { attempt, status, text } of refused.filter(({ attempt }) => !attempt.endsWith("over gRPC-Web"))) {
        expect({ attempt, status, text }).toMatchObject({
          status: 421,
          text: expect.stringContaining(" is not a name "),
        });
      }
      for (const { attempt, status, text } of refused.filter(({ attempt }) => attempt.endsWith("over gRPC-Web"))) {
        expect({ attempt, status, text }).toEqual({ attempt, status: 200, text: "" });
      }
      expect(JSON.stringify(read)).not.toContain(label);
      expect(await service.flows()).toEqual(before);
    });

    test("can still be used by its own page, and by links on others", async () => {
      await using site = await serveSite();
      await using tab = await browser.openTab();
      const { page } = tab;
      await page.goto(`http://evil.example:${site.port}/`);
      await page.setContent(`<a href="${service.url}/docs">The API</a>`);
      await page.getByText("The API").click();
      await page.locator(".opblock").first().waitFor();
      const status = await page.evaluate(async () => {
        const body = JSON.stringify([{ id: "own", type: "tab", label: "from its own page" }]);
        return (await fetch("/flows", { method: "POST", headers: { "content-type": "application/json" }, body }))
          .status;
      });
      expect(status).toBe(204);
      expect(JSON.stringify(await service.flows())).toContain("from its own page");
    });
  });

  test("can be read and changed by the same page if its origin is listed", async () => {
    await using site = await serveSite();
    const origin = `http://evil.example:${site.port}`;
    await using service = await startVictim({ cors: { origins: [origin] } });
    await using tab = await browser.openTab();
    await tab.page.goto(`${origin}/`);
    const read = await unleash(tab.page, service.url);
    expect(read.find(({ attempt }) => attempt === "read the flows")?.text).toContain(label);
    const succeeded = read.filter(({ status }) => status < 400).map(({ attempt }) => attempt);
    expect(succeeded).toEqual(
      expect.arrayContaining([
        "read over Connect",
        "read over Connect GET",
        "read over gRPC-Web",
        "deploy",
        "deploy over Connect",
        "deploy over gRPC-Web",
        "revoke a token",
      ]),
    );
    expect(JSON.stringify(await service.flows())).toContain("evil");
  });

  test("can be read and changed by the same page if its host name is in hosts", async () => {
    await using service = await startVictim({ hosts: ["evil.example"] });
    await using site = await serveSite();
    await using tab = await browser.openTab();
    const read = await rebind(tab.page, site, service);
    expect(read.find(({ attempt }) => attempt === "read the flows")?.text).toContain(label);
    expect(JSON.stringify(await service.flows())).toContain("evil");
  });
});

const users = [user("admin", "*")];
const workloads = {
  trustedProxies: ["10.9.8.7"],
  identity: { source: "forwarded", rules: [{ id: "spiffe://a.example/b", permissions: "*" }] },
};

test.each<[string, object, { host: number; origin: number }]>([
  ["open to all", {}, { host: 421, origin: 403 }],
  ["open without a token", { adminAuth: { users, default: { permissions: "*" } } }, { host: 421, origin: 403 }],
  // Any host name is accepted in a mesh: requests after DNS rebinding have no certificate.
  ["for workloads", workloads, { host: 401, origin: 403 }],
  ["for those with a token", { adminAuth: { users } }, { host: 401, origin: 401 }],
])("the checks of a request without a token depend on the configuration: %s", async (_what, config, expected) => {
  await using service = await startService({ config: { ...withoutRuntime, ...config } });
  expect(await check(service)).toEqual(expected);
});

test("if everyone may read, a request with a token may come from any origin, and one without a token may not", async () => {
  await using service = await startService({
    config: { ...withoutRuntime, adminAuth: { users, default: { permissions: "read" } } },
  });
  expect(await check(service)).toEqual({ host: 421, origin: 403 });
  const token = await login(service, { username: "admin" });
  const headers = { host: "flows.example", origin: "https://app.example" };
  expect((await service.send("GET", "/flows", { headers: { ...headers, ...bearer(token) } })).status).toBe(200);
  expect((await service.send("GET", "/flows", { headers: { ...headers, ...bearer("guessed") } })).status).toBe(401);
});

/** The statuses of a request without a token for a foreign host, and of one from a foreign origin. */
async function check(service: Service): Promise<{ host: number; origin: number }> {
  const ask = async (headers: Readonly<Record<string, string>>) =>
    (await service.send("GET", "/flows", { headers })).status;
  return { host: await ask({ host: "evil.example" }), origin: await ask({ origin: "http://evil.example" }) };
}

/** Loads the page from the site, and then rebinds the name of the site to the service. */
async function rebind(page: Page, site: Site, service: Service): Promise<Read[]> {
  const url = `http://evil.example:${site.port}`;
  await page.goto(`${url}/`);
  site.leadTo(service.port);
  return unleash(page, url);
}
