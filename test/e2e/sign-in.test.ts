import { readFile, readdir } from "node:fs/promises";
import { join } from "node:path";
import { generateKeyPair, SignJWT, UnsecuredJWT } from "jose";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { clientId, clientSecret, deviceClientId, openProvider, type OpenIdProvider } from "../auth/openid-provider.ts";
import { freePort } from "../free-port.ts";
import { createDatabase } from "../postgres/postgres.ts";
import { continuesAt, CookieBrowser, type Visit } from "./cookie-browser.ts";
import { sendRequest } from "./http-client.ts";
import { bearer, form, json } from "./rest.ts";
import { eventually, type Service, startService, withoutRuntime } from "./service.ts";
import { login, passwordOf, user } from "./users.ts";
import { watch, watchProtocols } from "./watch-events.ts";

const audience = "https://flows.example";
const rules = [
  { claims: { groups: "readers" }, permissions: "viewer" },
  { claims: { groups: "admins" }, permissions: "*" },
];
const adminAuth = (provider: OpenIdProvider, url: string) => ({
  signIn: { url },
  users: [user("admin", "*")],
  issuers: [
    {
      name: "company",
      issuer: provider.issuer,
      audience,
      jwksUrl: provider.jwksUrl,
      usernameClaim: "preferred_username",
      rules,
      signIn: { clientId, clientSecret, deviceClientId, scopes: ["openid", "profile", "groups"] },
    },
  ],
});

let url: string;
let provider: OpenIdProvider;
let service: Service;

beforeAll(async () => {
  const port = await freePort();
  url = `http://127.0.0.1:${port}`;
  provider = await openProvider([url], audience);
  provider.people.set("1", { preferred_username: "ada", groups: ["admins", "people"] });
  provider.people.set("2", { preferred_username: "eve", groups: ["people"] });
  service = await startService({ port, config: { ...withoutRuntime, adminAuth: adminAuth(provider, url) } });
});
afterAll(async () => {
  await service?.[Symbol.asyncDispose]();
  await provider?.[Symbol.asyncDispose]();
});
afterEach(() => {
  provider.intercept = undefined;
  provider.visitor = "1";
});

const start = (more = "") => `${url}/sign-in?issuer=company${more}`;
const isCallback = (next: string) => next.startsWith(`${url}/sign-in/callback/company`);
const own = () => ({ origin: url });

async function signIn(browser = new CookieBrowser(), sub = "1"): Promise<CookieBrowser> {
  provider.visitor = sub;
  const page = await browser.visit(start());
  expect([page.status, page.body]).toEqual([200, expect.stringContaining("You are signed in.")]);
  return browser;
}

/** The caller according to the service. */
async function identify(browser: CookieBrowser, base = url): Promise<unknown> {
  const { status, body } = await browser.send(`${base}/auth/identity`);
  return status === 200 ? (JSON.parse(body) as { username: string }).username : status;
}

test("someone signs in at the issuer, and calls with the cookie", async () => {
  const browser = new CookieBrowser();
  const page = await browser.visit(start("&return=/docs%23operations"));
  expect(page.status).toBe(200);
  expect(continuesAt(page)).toBe(`${url}/docs#operations`);
  const session = browser.cookies.get("flowgate-session") ?? "";
  expect(session).toMatch(/^[\w-]{43}$/);
  expect(browser.received.at(-2)).toMatch(
    /^flowgate-session=[\w-]{43}; Max-Age=4\d{4}; Path=\/; HttpOnly; SameSite=Strict$/,
  );
  expect(browser.received.at(-1)).toMatch(/^flowgate-sign-in=; Max-Age=0;/);
  expect(browser.received[0]).toMatch(/^flowgate-sign-in=[\w-]+; Max-Age=600; Path=\/; HttpOnly; SameSite=Lax$/);
  const identity = (await browser.send(`${url}/auth/identity`)).json();
  expect(identity).toEqual({
    username: "company:ada",
    permissions: ["*"],
    tokenId: expect.stringMatching(/^[\da-f]{24}$/),
  });
  expect((await browser.send(`${url}/flows`)).status).toBe(200);
  const query = "connect=v1&encoding=json&message=%7B%7D";
  const settings = await browser.send(`${url}/flowgate.v1.SettingsService/GetSettings?${query}`);
  expect([settings.status, settings.headers["cache-control"]]).toEqual([200, "private, no-cache"]);
  const { tokenId } = identity as { tokenId: string };
  const audit = (await browser.send(`${url}/audit?kind=sign_in&pageSize=1`)).json();
  expect(audit).toMatchObject({
    entries: [{ user: "company:ada", subject: tokenId, detail: "a session of a browser" }],
  });
  const listed = (await browser.send(`${url}/tokens?user=company:ada`)).json();
  expect(listed).toMatchObject({ tokens: [{ id: tokenId, clientId: "browser", scope: "*", valid: true }] });
});

test("the store contains neither the session nor a token of the issuer", async () => {
  const browser = await signIn();
  const names = (await readdir(service.dataDir)).filter((name) => name.startsWith("flowgate.db"));
  const files = await Promise.all(names.map((name) => readFile(join(service.dataDir, name), "latin1")));
  // That of a JWT.
  const secrets = ["eyJ", browser.cookies.get("flowgate-session") ?? ""];
  expect(secrets.filter((secret) => files.some((content) => content.includes(secret)))).toEqual([]);
  expect(files.some((content) => content.includes("company:ada"))).toBe(true);
});

test("a user signs in with a password, and a wrong one is refused", async () => {
  const browser = new CookieBrowser();
  const page = await browser.visit(`${url}/sign-in?return=/flows`);
  expect(page.body).toContain('href="./sign-in?issuer=company&#38;return=%2Fflows"');
  const wrong = await browser.submit(page, { username: "admin", password: "wrong" });
  expect([wrong.status, wrong.body]).toEqual([403, expect.stringContaining("The username or the password is wrong.")]);
  expect(browser.cookies.has("flowgate-session")).toBe(false);
  const right = await browser.submit(wrong, { username: "admin", password: passwordOf("admin") });
  expect([right.status, continuesAt(right)]).toEqual([200, `${url}/flows`]);
  expect(await identify(browser)).toBe("admin");
});

test("a session is no token, and a token no session", async () => {
  const browser = await signIn();
  const value = browser.cookies.get("flowgate-session") ?? "";
  expect((await service.send("GET", "/flows", { headers: bearer(value) })).status).toBe(401);
  const token = await login(service, {});
  expect((await service.send("GET", "/flows", { headers: bearer(token) })).status).toBe(200);
  browser.cookies.set("flowgate-session", token);
  expect(await identify(browser)).toBe(401);
  browser.cookies.set("flowgate-session", "nonsense");
  expect(await identify(browser)).toBe(401);
  // A token takes precedence over the cookie.
  expect((await browser.send(`${url}/flows`, "GET", { headers: bearer(token) })).status).toBe(200);
});

test("someone without a rule gets no session, and reads whom to ask", async () => {
  const browser = new CookieBrowser();
  provider.visitor = "2";
  const page = await browser.visit(start());
  const text = "You are signed in as company:eve, but have no access. Ask an administrator of this service for it.";
  expect([page.status, page.body]).toEqual([403, expect.stringContaining(text)]);
  expect(page.body).toContain("<h1>No access</h1>");
  expect(browser.cookies.has("flowgate-session")).toBe(false);
  const admin = await signIn();
  expect((await admin.send(`${url}/audit?kind=sign_in_failed&pageSize=1`)).json()).toMatchObject({
    entries: [{ detail: `issuer company: ${text}` }],
  });
});

/** Takes the browser to the issuer and back, but not to the callback, whose URL is returned. */
async function untilCallback(browser: CookieBrowser, change = (location: string) => location): Promise<URL> {
  const begun = await browser.send(start());
  const back = await browser.visit(change(begun.headers.location ?? ""), isCallback);
  expect(isCallback(back.url)).toBe(true);
  return new URL(back.url);
}

const refused = { status: 403, title: "Not signed in", hasSession: false };
const accepted = { status: 200, title: "Signed in", hasSession: true };

/** What a browser has after a sign-in. */
function outcomeOf(browser: CookieBrowser, { status, body }: Visit) {
  return { status, title: /<h1>(.*)<\/h1>/.exec(body)?.[1], hasSession: browser.cookies.has("flowgate-session") };
}

describe("the callback refuses", () => {
  test.each<[string, (callback: URL) => void]>([
    ["another state", ({ searchParams }) => searchParams.set("state", "another")],
    ["no state", ({ searchParams }) => searchParams.delete("state")],
    ["another code", ({ searchParams }) => searchParams.set("code", "another")],
    ["no code", ({ searchParams }) => searchParams.delete("code")],
    ["the response of another issuer", ({ searchParams }) => searchParams.set("iss", "https://other.example")],
    ["the path of another issuer", (callback) => void (callback.pathname = "/sign-in/callback/other")],
    ["an error", ({ searchParams }) => searchParams.set("error", "access_denied")],
    ["two states", ({ searchParams }) => searchParams.append("state", "another")],
  ])("%s", async (_name, change) => {
    const browser = new CookieBrowser();
    const callback = await untilCallback(browser);
    change(callback);
    expect(outcomeOf(browser, await browser.send(callback.href))).toEqual(refused);
  });

  test("a response that this browser has not requested, so that no one is signed in as someone else", async () => {
    const callback = await untilCallback(new CookieBrowser());
    const victim = new CookieBrowser();
    expect(outcomeOf(victim, await victim.send(callback.href))).toEqual(refused);
    // Also if it has begun a sign-in of its own.
    await victim.send(start());
    expect(outcomeOf(victim, await victim.send(callback.href))).toEqual(refused);
  });

  test("a code that was used before, also with the cookies of that time", async () => {
    const browser = new CookieBrowser();
    const callback = await untilCallback(browser);
    const kept = new Map(browser.cookies);
    expect((await browser.send(callback.href)).body).toContain("You are signed in.");
    const again = new CookieBrowser();
    kept.forEach((value, name) => again.cookies.set(name, value));
    expect(outcomeOf(again, await again.send(callback.href))).toEqual(refused);
  });

  test("what another browser has kept, or was changed", async () => {
    const [browser, other] = [new CookieBrowser(), new CookieBrowser()];
    const callback = await untilCallback(browser);
    await other.send(start());
    browser.cookies.set("flowgate-sign-in", other.cookies.get("flowgate-sign-in") ?? "");
    expect(outcomeOf(browser, await browser.send(callback.href))).toEqual(refused);
    const changed = new CookieBrowser();
    const next = await untilCallback(changed);
    const kept = changed.cookies.get("flowgate-sign-in") ?? "";
    changed.cookies.set("flowgate-sign-in", `${kept.slice(0, -2)}${kept.endsWith("AA") ? "BB" : "AA"}`);
    expect(outcomeOf(changed, await changed.send(next.href))).toEqual(refused);
  });

  test("a code that was issued for another nonce", async () => {
    const browser = new CookieBrowser();
    const callback = await untilCallback(browser, (location) => location.replace(/nonce=[^&]+/, "nonce=another"));
    expect(outcomeOf(browser, await browser.send(callback.href))).toEqual(refused);
  });

  test("a code that was issued for another verifier", async () => {
    const browser = new CookieBrowser();
    const challenge = `code_challenge=${"A".repeat(43)}`;
    const callback = await untilCallback(browser, (location) => location.replace(/code_challenge=[^&]+/, challenge));
    expect(outcomeOf(browser, await browser.send(callback.href))).toEqual(refused);
  });

  const seconds = () => Math.floor(Date.now() / 1000);

  test.each<[string, boolean, (claims: Record<string, unknown>) => Promise<string>]>([
    ["nothing: the control", true, (claims) => provider.sign(claims)],
    ["an expired ID token", false, (claims) => provider.sign({ ...claims, exp: seconds() - 60 })],
    ["an ID token for another client", false, (claims) => provider.sign({ ...claims, aud: "another" })],
    ["one for the audience of access tokens", false, (claims) => provider.sign({ ...claims, aud: audience })],
    ["one of another issuer", false, (claims) => provider.sign({ ...claims, iss: "https://other.example" })],
    ["one with another nonce", false, (claims) => provider.sign({ ...claims, nonce: "another" })],
    ["one without a nonce", false, (claims) => provider.sign({ ...claims, nonce: undefined })],
    ["one without a signature", false, async (claims) => new UnsecuredJWT(claims).encode()],
    [
      "one that is signed with the secret of the client",
      false,
      (claims) => new SignJWT(claims).setProtectedHeader({ alg: "HS256" }).sign(Buffer.from(clientSecret)),
    ],
    [
      "one that is signed with another key",
      false,
      async (claims) =>
        await new SignJWT(claims)
          .setProtectedHeader({ alg: "RS256", kid: "first" })
          .sign((await generateKeyPair("RS256")).privateKey),
    ],
  ])("%s", async (_name, isAccepted, sign) => {
    const browser = new CookieBrowser();
    let nonce = "";
    const callback = await untilCallback(browser, (location) => {
      nonce = new URL(location).searchParams.get("nonce") ?? "";
      return location;
    });
    const claims = { iss: provider.issuer, aud: clientId, sub: "1", nonce, iat: seconds(), exp: seconds() + 60 };
    const idToken = await sign({ ...claims, preferred_username: "ada", groups: ["admins"] });
    provider.intercept = (request, response) => {
      if (request.url !== "/token") {
        return false;
      }
      response.writeHead(200, { "content-type": "application/json" });
      response.end(JSON.stringify({ access_token: "a", token_type: "Bearer", expires_in: 60, id_token: idToken }));
      return true;
    };
    const page = await browser.send(callback.href);
    expect(outcomeOf(browser, page)).toEqual(isAccepted ? accepted : refused);
  });
});

test.each([
  ["https://evil.example", "/"],
  ["//evil.example", "/"],
  ["/\\evil.example", "/"],
  ["/\t/evil.example", "/"],
  ["\\\\evil.example", "/"],
  ["javascript:alert(1)", "/"],
  ["docs", "/"],
  ["", "/"],
  ["/.//evil.example", "//evil.example"],
  ['/flows?a="><script>', "/flows?a=%22%3E%3Cscript%3E"],
  ["/flows#a", "/flows#a"],
])("after the sign-in, the browser stays here with return=%j", async (returnTo, path) => {
  const browser = new CookieBrowser();
  for (const page of [
    await browser.visit(start(`&return=${encodeURIComponent(returnTo)}`)),
    await browser.submit(await browser.visit(`${url}/sign-in?return=${encodeURIComponent(returnTo)}`), {
      username: "admin",
      password: passwordOf("admin"),
    }),
  ]) {
    expect(continuesAt(page)).toBe(url + path);
    expect(page.headers.location).toBeUndefined();
    expect(page.body).not.toContain("<script");
  }
});

test("each sign-in has a session of its own, and ends the one before", async () => {
  const attacker = await signIn();
  const known = attacker.cookies.get("flowgate-session") ?? "";
  const victim = new CookieBrowser();
  victim.cookies.set("flowgate-session", known);
  await signIn(victim);
  expect(victim.cookies.get("flowgate-session")).not.toBe(known);
  expect(await identify(victim)).toBe("company:ada");
  expect(await identify(attacker)).toBe(401);
  const invented = "A".repeat(43);
  victim.cookies.set("flowgate-session", invented);
  await signIn(victim);
  attacker.cookies.set("flowgate-session", invented);
  expect(await identify(attacker)).toBe(401);
});

test("a sign-in at a provider of another site ends the session before, unless it fails", async () => {
  const browser = await signIn();
  const previous = browser.cookies.get("flowgate-session") ?? "";
  const other = new CookieBrowser();
  other.cookies.set("flowgate-session", previous);
  const failing = await untilCallback(browser);
  failing.searchParams.set("state", "another");
  await browser.send(failing.href);
  expect(await identify(other)).toBe("company:ada");
  const callback = await untilCallback(browser);
  // Browsers do not send a strict cookie with a request that another site has caused.
  browser.cookies.delete("flowgate-session");
  expect(outcomeOf(browser, await browser.send(callback.href))).toEqual(accepted);
  expect(await identify(browser)).toBe("company:ada");
  expect(await identify(other)).toBe(401);
});

// The same is tested with pages of other origins in password-sessions.test.ts.
test("a form needs an origin, and a session can be read from this origin and without one", async () => {
  const browser = await signIn();
  const session = browser.cookies.get("flowgate-session");
  const body = new URLSearchParams({ username: "admin", password: passwordOf("admin"), return: "/" }).toString();
  for (const path of ["/sign-in", "/sign-out"]) {
    expect((await browser.send(`${url}${path}`, "POST", { headers: form, body })).status).toBe(403);
  }
  expect(browser.cookies.get("flowgate-session")).toBe(session);
  expect(await identify(browser)).toBe("company:ada");
  for (const headers of [{ origin: url, "sec-fetch-site": "same-origin" }, { "sec-fetch-site": "none" }]) {
    expect((await browser.send(`${url}/flows`, "GET", { headers })).status).toBe(200);
  }
});

test("a form that is too long or something else is refused", async () => {
  const browser = new CookieBrowser();
  const post = (headers: Readonly<Record<string, string>>, body: string) =>
    browser.send(`${url}/sign-in`, "POST", { headers: { ...own(), ...headers }, body });
  expect((await post(json, "{}")).status).toBe(415);
  expect((await post(form, "a".repeat(20_000))).status).toBe(413);
  expect((await post(form, "")).status).toBe(403);
  const put = await browser.send(`${url}/sign-in`, "PUT", { headers: own() });
  expect([put.status, put.headers.allow]).toEqual([405, "GET, POST"]);
  expect((await browser.visit(`${url}/sign-in?issuer=another`)).status).toBe(404);
});

test.each(["constructor", "toString", "valueOf", "__proto__", "get"])("no page has the method %s", async (method) => {
  const client = { name: "HTTP/2", url, httpVersion: "2" } as const;
  for (const path of ["/sign-in", "/sign-in/callback/company", "/sign-out"]) {
    expect((await sendRequest(client, method, path)).status).toBe(405);
  }
});

test("someone signs out here and at the issuer", async () => {
  const browser = await signIn();
  const value = browser.cookies.get("flowgate-session") ?? "";
  const confirmation = await browser.visit(`${url}/sign-out`);
  const page = await browser.submit(confirmation);
  expect(page.body).toContain("You are signed out.");
  expect(browser.cookies.has("flowgate-session")).toBe(false);
  browser.cookies.set("flowgate-session", value);
  expect(await identify(browser)).toBe(401);
  const atIssuer = new URL(continuesAt(page));
  expect(atIssuer.origin).toBe(provider.issuer);
  const signedOut = await browser.submit(await browser.visit(atIssuer.href), { logout: "yes" });
  expect([signedOut.url, signedOut.body]).toEqual([
    expect.stringMatching(/\/sign-in(\?|$)/),
    expect.stringContaining("Sign in"),
  ]);
  await eventually(async () => expect(provider.requests).toContain("POST /token/revocation"));
});

test("a sign-out ends each session that was sent, also one that another program has planted", async () => {
  const [own, planted] = [await signIn(), await signIn()];
  const values = [own, planted].map((each) => each.cookies.get("flowgate-session") ?? "");
  const cookie = values.map((value) => `flowgate-session=${value}`).join("; ");
  const both = { headers: { cookie } };
  expect((await own.send(`${url}/auth/identity`, "GET", both)).status).toBe(401);
  const post = { headers: { ...form, cookie, origin: url }, body: "" };
  const page = await own.send(`${url}/sign-out`, "POST", post);
  expect([page.status, page.body]).toEqual([200, expect.stringContaining("You are signed out.")]);
  expect(new URL(continuesAt(page)).origin).toBe(provider.issuer);
  expect(own.received.at(-1)).toMatch(/^flowgate-session=; Max-Age=0;/);
  expect(own.cookies.has("flowgate-session")).toBe(false);
  for (const value of values) {
    own.cookies.set("flowgate-session", value);
    expect(await identify(own)).toBe(401);
  }
});

test("while the issuer does not respond, sign-ins there are refused for now, and users with passwords are served", async () => {
  const browser = new CookieBrowser();
  const callback = await untilCallback(browser);
  provider.intercept = (request) => {
    request.socket.destroy();
    return true;
  };
  const page = await browser.send(callback.href);
  expect([page.status, page.headers["retry-after"]]).toEqual([503, "10"]);
  expect(page.body).toContain("The provider company does not respond as it should");
  const local = new CookieBrowser();
  await local.submit(await local.visit(`${url}/sign-in`), { username: "admin", password: passwordOf("admin") });
  expect(await identify(local)).toBe("admin");
});

test("a session follows the groups of its person, and ends without any", async () => {
  provider.lifetimeSeconds = 1;
  provider.people.set("3", { preferred_username: "bob", groups: ["readers", "admins"] });
  try {
    const browser = await signIn(new CookieBrowser(), "3");
    const permissions = async () =>
      ((await browser.send(`${url}/auth/identity`)).json() as { permissions: string[] }).permissions;
    expect(await permissions()).toEqual(["read", "*"]);
    provider.people.set("3", { preferred_username: "bob", groups: ["readers"] });
    await eventually(async () => expect(await permissions()).toEqual(["read"]));
    provider.people.set("3", { preferred_username: "bob", groups: [] });
    await eventually(async () => expect(await identify(browser)).toBe(401));
    provider.people.set("3", { preferred_username: "bob", groups: ["readers"] });
    expect(await identify(browser)).toBe(401);
  } finally {
    provider.lifetimeSeconds = 300;
  }
});

test("an administrator ends the sessions of a user, and streams end with them", async () => {
  const browser = await signIn();
  const headers = { cookie: `flowgate-session=${browser.cookies.get("flowgate-session")}` };
  await using stream = watch(watchProtocols["SSE"] as (typeof watchProtocols)[string], url, {}, headers);
  await stream.until(({ kind }) => kind === "snapshotEnd");
  const admin = bearer(await login(service, {}));
  const body = JSON.stringify({ user: "company:ada" });
  const revoked = await service.send("POST", "/tokens:revoke", { headers: { ...admin, ...json }, body });
  expect((revoked.json() as { revoked: number }).revoked).toBeGreaterThan(0);
  expect(await identify(browser)).toBe(401);
  expect(await stream.ended).toBe("invalid_token");
});

test("a session ends with the user, the rule or the issuer, and outlives a restart", async () => {
  const port = await freePort();
  const base = `http://127.0.0.1:${port}`;
  await using local = await openProvider([base], audience);
  local.people.set("1", { preferred_username: "ada", groups: ["admins"] });
  local.visitor = "1";
  const configured = adminAuth(local, base);
  await using before = await startService({ port, config: { ...withoutRuntime, adminAuth: configured } });
  const { dataDir } = before;
  const [person, admin] = [new CookieBrowser(), new CookieBrowser()];
  await person.visit(`${base}/sign-in?issuer=company`);
  await admin.submit(await admin.visit(`${base}/sign-in`), { username: "admin", password: passwordOf("admin") });
  const identities = async () => [await identify(person, base), await identify(admin, base)];
  expect(await identities()).toEqual(["company:ada", "admin"]);
  const replace = (changed: object) => before.replaceConfig({ ...withoutRuntime, adminAuth: changed });
  await replace({ ...configured, users: [user("other", "*")] });
  await eventually(async () => expect(await identities()).toEqual(["company:ada", 401]));
  const [issuer] = configured.issuers;
  await replace({ ...configured, issuers: [{ ...issuer, rules: [rules[0]] }] });
  await eventually(async () => expect(await identities()).toEqual([401, "admin"]));
  await replace({ ...configured, issuers: [] });
  await eventually(async () =>
    expect((await new CookieBrowser().visit(`${base}/sign-in`)).body).not.toContain("company"),
  );
  expect(await identities()).toEqual([401, "admin"]);
  await replace(configured);
  await eventually(async () => expect(await identities()).toEqual(["company:ada", "admin"]));
  await before.stop();
  await using _ = await startService({ port, dataDir, config: { ...withoutRuntime, adminAuth: configured } });
  expect(await identities()).toEqual(["company:ada", "admin"]);
});

test("replicas share sessions, also their end", async () => {
  await using database = await createDatabase();
  const ports = [await freePort(), await freePort()];
  const [first = "", second = ""] = ports.map((port) => `http://127.0.0.1:${port}`);
  await using local = await openProvider([first], audience);
  local.people.set("1", { preferred_username: "ada", groups: ["admins"] });
  // Browsers reach both at the same URL, that of a load balancer.
  const shared = { store: database.url, credentialSecret: "a secret that all replicas share" };
  const config = { ...withoutRuntime, ...shared, adminAuth: adminAuth(local, first) };
  await using _one = await startService({ port: ports[0] ?? 0, config });
  await using _two = await startService({ port: ports[1] ?? 0, config });
  const browser = new CookieBrowser();
  // The callback arrives at the other replica.
  const back = await browser.visit(`${first}/sign-in?issuer=company`, (next) =>
    next.includes("/sign-in/callback/company"),
  );
  const page = await browser.send(back.url.replace(first, second));
  expect(outcomeOf(browser, page)).toEqual(accepted);
  expect([await identify(browser, first), await identify(browser, second)]).toEqual(["company:ada", "company:ada"]);
  const kept = new Map(browser.cookies);
  await browser.send(`${second}/sign-out`, "POST", { headers: { ...form, origin: first }, body: "" });
  kept.forEach((value, name) => browser.cookies.set(name, value));
  expect(await identify(browser, second)).toBe(401);
  await eventually(async () => expect(await identify(browser, first)).toBe(401));
});

test("the documentation page links to the sign-in, and other pages are not served without it", async () => {
  expect((await service.send("GET", "/docs")).body).toContain('href="sign-in?return=/docs"');
  await using other = await startService({ config: withoutRuntime });
  expect((await other.send("GET", "/docs")).body).not.toContain("sign-in?");
  for (const path of ["/sign-in", "/sign-in/callback/company", "/sign-out", "/.well-known/oauth-protected-resource"]) {
    expect((await other.send("GET", path)).status).toBe(404);
  }
});
