import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { freePort } from "../free-port.ts";
import { continuesAt, CookieBrowser } from "./cookie-browser.ts";
import { form, json } from "./rest.ts";
import { eventually, type Service, startService, withoutRuntime } from "./service.ts";
import { passwordOf, user } from "./users.ts";

// Sessions of browsers without adminAuth.signIn.

const config = { ...withoutRuntime, adminAuth: { users: [user("admin", "*")] } };

let service: Service;
let url: string;
beforeAll(async () => {
  service = await startService({ config });
  url = `http://localhost:${service.port}`;
});
afterAll(() => service?.[Symbol.asyncDispose]());

const credentials = { username: "admin", password: passwordOf("admin") };

async function signIn(base = url, returnTo = "/console/history"): Promise<CookieBrowser> {
  const browser = new CookieBrowser();
  const page = await browser.visit(`${base}/sign-in?return=${encodeURIComponent(returnTo)}`);
  const signedIn = await browser.submit(page, credentials);
  expect([signedIn.status, continuesAt(signedIn)]).toEqual([200, base + returnTo]);
  return browser;
}

/** The caller according to the service. */
async function identify(browser: CookieBrowser, base = url, headers = {}): Promise<unknown> {
  const { status, body } = await browser.send(`${base}/auth/identity`, "GET", { headers });
  return status === 200 ? (JSON.parse(body) as { username: string }).username : status;
}

test("a user signs in with a password, and comes back to the page", async () => {
  for (const base of [url, service.url]) {
    const browser = await signIn(base);
    expect(browser.received.at(0)).toMatch(
      /^flowgate-session=[\w-]{43}; Max-Age=4\d{4}; Path=\/; HttpOnly; SameSite=Strict$/,
    );
    expect(await identify(browser, base)).toBe("admin");
    await browser.submit(await browser.visit(`${base}/sign-out`));
    expect(await identify(browser, base)).toBe(401);
  }
  expect((await service.send("GET", "/docs")).body).toContain('href="sign-in?return=/docs"');
  // It describes what has to be configured.
  expect((await service.send("GET", "/.well-known/oauth-protected-resource")).status).toBe(404);
});

test("a sign-out with more sessions than a browser has ends none, and says what to do", async () => {
  const browser = await signIn();
  const values = [browser.cookies.get("flowgate-session"), ...Array.from({ length: 10 }, (_, at) => `planted${at}`)];
  const cookie = values.map((value) => `flowgate-session=${value}`).join("; ");
  const headers = { ...form, cookie, origin: url };
  const page = await browser.send(`${url}/sign-out`, "POST", { headers, body: "" });
  expect([page.status, page.body]).toEqual([429, expect.stringContaining("delete them in the browser")]);
  expect(await identify(browser)).toBe("admin");
});

test("a call that changes something needs the header that other pages can't send", async () => {
  const browser = await signIn();
  const deploy = (headers: Readonly<Record<string, string>>) =>
    browser.send(`${url}/flows`, "POST", { headers: { ...json, ...headers }, body: "[]" });
  const refused = await deploy({});
  expect([refused.status, refused.json()]).toEqual([403, expect.objectContaining({ code: "foreign_origin" })]);
  expect((await deploy({ "x-csrf-protection": "1" })).status).toBe(204);
});

test.each<[string, Readonly<Record<string, string>>]>([
  ["another origin", { origin: "http://evil.example" }],
  ["another port", { origin: "http://localhost:1880" }],
  ["https", { origin: "https://localhost" }],
  ["another name of this machine", { origin: "http://127.0.0.1" }],
  ["a hidden origin", { origin: "null" }],
  ["another site", { "sec-fetch-site": "cross-site" }],
  ["another port, which is the same site", { "sec-fetch-site": "same-site" }],
])("pages of %s can neither use a session nor sign in or out", async (_name, headers) => {
  const browser = await signIn();
  const changing = { ...headers, "x-csrf-protection": "1" };
  expect((await browser.send(`${url}/flows`, "GET", { headers })).status).toBe(403);
  expect((await browser.send(`${url}/flows`, "POST", { headers: { ...json, ...changing }, body: "[]" })).status).toBe(
    403,
  );
  const post = { headers: { ...form, ...headers }, body: new URLSearchParams(credentials).toString() };
  expect((await browser.send(`${url}/sign-in`, "POST", post)).status).toBe(403);
  expect((await browser.send(`${url}/sign-out`, "POST", post)).status).toBe(403);
  expect(await identify(browser)).toBe("admin");
});

test.each<[string, Readonly<Record<string, string>>]>([
  ["a name that leads here by DNS rebinding", { host: "evil.example", origin: "http://evil.example" }],
  ["a network", { host: "192.0.2.1:8080", origin: "http://192.0.2.1:8080" }],
  ["what is no host", { host: "localhost@evil.example" }],
])("with the Host of %s, there is neither a sign-in nor a session", async (_name, headers) => {
  const browser = await signIn();
  expect(await identify(browser, url, headers)).toBe(401);
  const page = await browser.send(`${url}/sign-in`, "GET", { headers });
  expect([page.status, page.body]).toEqual([421, expect.stringContaining("Sign in over https")]);
  expect(page.body).not.toContain("<form");
  const post = { headers: { ...form, ...headers }, body: new URLSearchParams(credentials).toString() };
  const response = await browser.send(`${url}/sign-in`, "POST", post);
  expect([response.status, response.headers["set-cookie"]]).toEqual([421, undefined]);
});

test.each<[string, Readonly<Record<string, string>>]>([
  ["with the address of another machine", { "x-forwarded-for": "192.0.2.7" }],
  ["with two addresses", { "x-forwarded-for": "192.0.2.7, 127.0.0.1" }],
  ["with another host", { "x-forwarded-host": "flows.example" }],
  ["with the address in X-Real-IP", { "x-real-ip": "192.0.2.7" }],
  ["with the address in Forwarded", { forwarded: 'for=127.0.0.1, proto=http;For="[2001:db8::7]:4711"' }],
  ["with another host in Forwarded", { forwarded: "for=127.0.0.1;host=flows.example" }],
])("what a proxy on this machine has received without TLS has no sign-in, %s", async (_name, headers) => {
  const browser = await signIn();
  // As proxies do that do not preserve Host.
  const local = new URL(url).host;
  expect(await identify(browser, url, { ...headers, host: local })).toBe(401);
  const page = await browser.send(`${url}/sign-in`, "GET", { headers: { ...headers, host: local } });
  expect([page.status, page.body]).toEqual([421, expect.stringContaining("Sign in over https")]);
  expect(page.body).toContain(`set adminAuth.signIn.url to http://${local}.`);
  const here = {
    "x-forwarded-for": "127.0.0.1, ::1",
    "x-forwarded-host": "localhost:8080",
    "x-real-ip": "127.0.0.1",
    forwarded: 'for="[::1]:4711";host="localhost:8080", for=127.0.0.1',
  };
  expect(await identify(browser, url, here)).toBe("admin");
});

test("with adminAuth.signIn.url, as the refusal says, users sign in through a proxy in a container", async () => {
  const origin = "http://localhost:8080";
  const { adminAuth } = config;
  await using proxied = await startService({
    config: { ...config, adminAuth: { ...adminAuth, signIn: { url: origin } } },
  });
  const browser = new CookieBrowser();
  const headers = { host: "localhost:8080", "x-forwarded-for": "172.17.0.1", origin };
  const body = new URLSearchParams(credentials).toString();
  const page = await browser.send(`${proxied.url}/sign-in`, "POST", { headers: { ...form, ...headers }, body });
  expect(page.status).toBe(200);
  expect(await identify(browser, proxied.url, headers)).toBe("admin");
});

test("over the Unix socket, users sign in at localhost, and no header says that it is another host", async () => {
  const socketPath = join(service.dataDir, "flowgate.sock");
  const body = new URLSearchParams(credentials).toString();
  const signInWith = async (headers: Readonly<Record<string, string>>) =>
    (await service.send("POST", "/sign-in", { headers: { ...form, ...headers }, body, socketPath })).status;
  expect(await signInWith({ host: "localhost", origin: "http://localhost" })).toBe(200);
  expect(await signInWith({ host: "localhost", origin: "http://flows.example" })).toBe(403);
  expect(await signInWith({ host: "localhost" })).toBe(403);
  const elsewhere = { host: "flows.example", origin: "https://flows.example" };
  expect(await signInWith(elsewhere)).toBe(421);
  expect(await signInWith({ ...elsewhere, "x-forwarded-proto": "https" })).toBe(421);
});

test("two sessions in one request are none", async () => {
  const [victim, attacker] = [await signIn(), await signIn()];
  const [own = "", other = ""] = [victim, attacker].map(({ cookies }) => cookies.get("flowgate-session"));
  for (const values of [
    [own, other],
    [other, own],
  ]) {
    const cookie = values.map((value) => `flowgate-session=${value}`).join("; ");
    expect(await identify(victim, url, { cookie })).toBe(401);
  }
  expect(await identify(victim, url, { cookie: `flowgate-session=${own}` })).toBe("admin");
});

test("only a trusted proxy says that it has received https", async () => {
  const browser = new CookieBrowser();
  const headers = { "x-forwarded-proto": "https", "x-forwarded-host": "flows.example" };
  const origin = "https://flows.example";
  const body = new URLSearchParams(credentials).toString();
  const post = { headers: { ...form, ...headers, origin }, body };
  expect((await browser.send(`${url}/sign-in`, "POST", post)).status).toBe(421);
  await using proxied = await startService({ config: { ...config, trustedProxies: ["127.0.0.1"] } });
  const page = await browser.send(`${proxied.url}/sign-in`, "POST", post);
  expect(page.status).toBe(200);
  expect(browser.received.at(0)).toMatch(
    /^__Host-flowgate-session=[\w-]{43}; Max-Age=4\d{4}; Path=\/; HttpOnly; Secure; SameSite=Strict$/,
  );
  expect(await identify(browser, proxied.url, { ...headers, origin })).toBe("admin");
  expect(await identify(browser, proxied.url, { ...headers, origin: "https://evil.example" })).toBe(403);
  // Over http, others could have set it.
  const value = browser.cookies.get("__Host-flowgate-session") ?? "";
  expect(await identify(browser, proxied.url)).toBe(401);
  expect(await identify(browser, proxied.url, { ...headers, cookie: `flowgate-session=${value}` })).toBe(401);
  const plain = { headers: { ...form, "x-forwarded-host": "flows.example", origin: "http://flows.example" }, body };
  expect((await browser.send(`${proxied.url}/sign-in`, "POST", plain)).status).toBe(421);
});

test("a session ends with its user, and outlives a restart", async () => {
  const port = await freePort();
  const base = `http://localhost:${port}`;
  await using first = await startService({ port, config });
  const { dataDir } = first;
  const browser = await signIn(base);
  const replace = (users: readonly object[]) => first.replaceConfig({ ...config, adminAuth: { users } });
  await replace([user("other", "*")]);
  await eventually(async () => expect(await identify(browser, base)).toBe(401));
  await replace(config.adminAuth.users);
  await eventually(async () => expect(await identify(browser, base)).toBe("admin"));
  await first.stop();
  await using _ = await startService({ port, dataDir, config });
  expect(await identify(browser, base)).toBe("admin");
});

test("users who are added to a configuration with issuers only can sign in without a restart", async () => {
  const issuer = {
    name: "ci",
    issuer: "https://ci.example",
    audience: "flows",
    jwksUrl: "https://ci.example/keys",
    rules: [{ claims: { sub: "a" }, permissions: "read" }],
  };
  const adminAuth = { issuers: [issuer] };
  await using other = await startService({ config: { ...withoutRuntime, adminAuth } });
  const base = `http://localhost:${other.port}`;
  expect((await new CookieBrowser().visit(`${base}/sign-in`)).body).toContain("No one can sign in here");
  expect((await other.send("GET", "/docs")).body).not.toContain("sign-in?");
  await other.replaceConfig({ ...config, adminAuth: { ...adminAuth, ...config.adminAuth } });
  await eventually(async () => expect((await other.send("GET", "/docs")).body).toContain("sign-in?"));
  const browser = await signIn(base);
  expect(await identify(browser, base)).toBe("admin");
  const header = { "x-csrf-protection": "1" };
  const response = await browser.send(`${base}/flows`, "POST", { headers: { ...json, ...header }, body: "[]" });
  expect(response.status).toBe(204);
});

describe("there is no sign-in", () => {
  test.each<[string, object]>([
    ["without users", {}],
    ["without pages", { ...config, docs: false }],
  ])("%s", async (_name, more) => {
    await using other = await startService({ config: { ...withoutRuntime, ...more } });
    for (const path of ["/sign-in", "/sign-out"]) {
      expect((await other.send("GET", path)).status).toBe(404);
    }
  });
});

test("there is nothing to complete without a provider", async () => {
  const { status, body } = await service.send("GET", "/sign-in/callback/company?code=a&state=b", {
    headers: { host: new URL(url).host },
  });
  expect([status, body]).toEqual([403, expect.stringContaining("The sign-in was not begun in this browser")]);
});
