import { once } from "node:events";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { WebSocket } from "ws";
import { clientId, clientSecret, openProvider, type OpenIdProvider } from "../auth/openid-provider.ts";
import { freePort } from "../free-port.ts";
import { missingBrowser, openBrowser } from "./browser.ts";
import { CookieBrowser, type Visit } from "./cookie-browser.ts";
import { Editor } from "./editor.ts";
import { bearer, form, json, send } from "./rest.ts";
import { eventually, type Service, startService, withoutRuntime } from "./service.ts";
import { login, passwordOf, tokenParameters, user } from "./users.ts";

const audience = "https://flows.example";
const issuerOf = ({ issuer, jwksUrl }: OpenIdProvider) => ({
  name: "company",
  issuer,
  audience,
  jwksUrl,
  usernameClaim: "preferred_username",
  rules: [
    { claims: { groups: "admins" }, permissions: "*" },
    { claims: { groups: "auditors" }, permissions: "audit.read" },
  ],
  signIn: { clientId, clientSecret, scopes: ["openid", "profile", "groups"] },
});

/** A service with the editor, at which people sign in at a provider. */
async function start(
  provider: OpenIdProvider,
  api: string,
  editor: string,
  users: readonly object[],
): Promise<Service> {
  const adminAuth = { signIn: { url: api }, users, issuers: [issuerOf(provider)] };
  const nodeRed = { port: Number(new URL(editor).port), editor: true, url: editor };
  return startService({ port: Number(new URL(api).port), config: { ...withoutRuntime, adminAuth, nodeRed } });
}

const freeUrl = async () => `http://127.0.0.1:${await freePort()}`;

let api: string;
let url: string;
let provider: OpenIdProvider;
let service: Service;

beforeAll(async () => {
  [api, url] = [await freeUrl(), await freeUrl()];
  provider = await openProvider([api], audience);
  provider.people.set("1", { preferred_username: "ada", groups: ["admins"] });
  provider.people.set("2", { preferred_username: "eve", groups: ["people"] });
  provider.people.set("3", { preferred_username: "max", groups: ["auditors"] });
  service = await start(provider, api, url, [user("admin", "*"), user("auditor", "audit.read")]);
});
afterAll(async () => {
  await service?.[Symbol.asyncDispose]();
  await provider?.[Symbol.asyncDispose]();
});
afterEach(() => {
  provider.visitor = "1";
});

/** What the editor sends with all of its requests. */
const ofEditor = () => ({ "x-requested-with": "XMLHttpRequest", origin: url });

/** Follows the button of the editor to the page that offers how to sign in. */
const follow = (browser: CookieBrowser) => browser.visit(`${url}/auth/strategy`);

/** Signs in at the provider, and returns the page after that. */
async function signIn(browser: CookieBrowser, sub = "1"): Promise<Visit> {
  provider.visitor = sub;
  const offered = await follow(browser);
  const [, href = ""] = /<a href="([^"]+)">Sign in with company/.exec(offered.body) ?? [];
  return browser.visit(new URL(href.replaceAll("&#38;", "&"), offered.url).href);
}

/** The code with which a page sends the browser to the editor; undefined: it does not. */
const codeIn = ({ body }: Visit) => new RegExp(`url=${url}/\\?code=([\\w-]+)"`).exec(body)?.[1];

/** Sends a code as the page of the editor does. */
async function redeem(browser: CookieBrowser, code = "") {
  const body = new URLSearchParams({ code }).toString();
  const reply = await browser.send(`${url}/auth/token`, "POST", { headers: { ...form, ...ofEditor() }, body });
  const { accessToken } = reply.json() as { accessToken?: string };
  return { status: reply.status, accessToken };
}

async function tokenOf(browser = new CookieBrowser(), sub = "1"): Promise<string> {
  return (await redeem(browser, codeIn(await signIn(browser, sub)))).accessToken ?? "";
}

/** The user of a token at the listener of the editor. */
async function identify(token: string): Promise<unknown> {
  const { status, body } = await send(url, "GET", "/settings", { headers: bearer(token) });
  return status === 200 ? (JSON.parse(body) as { user: unknown }).user : status;
}

test("the editor shows a button, and node-red-admin asks for a password", async () => {
  const prompts = [{ type: "button", label: "Sign in", url: "auth/strategy" }];
  const forEditor = await send(url, "GET", "/auth/login?_=1", { headers: ofEditor() });
  expect(forEditor.json()).toEqual({ type: "strategy", prompts });
  expect((await send(url, "GET", "/auth/login")).json()).toMatchObject({ type: "credentials" });
  const body = JSON.stringify({ ...tokenParameters({ username: "admin" }), client_id: "node-red-admin", scope: "*" });
  const { access_token: token } = (await send(url, "POST", "/auth/token", { headers: json, body })).json() as {
    access_token: string;
  };
  expect(await identify(token)).toMatchObject({ username: "admin" });
});

test("someone signs in at the issuer, with a token for the editor only", async () => {
  const browser = new CookieBrowser();
  const page = await signIn(browser);
  expect(browser.received[0]).toMatch(/^flowgate-editor=[\w-]{43}; Max-Age=600; SameSite=Strict; Path=\/; HttpOnly$/);
  expect(browser.cookies.has("flowgate-session")).toBe(false);
  const code = codeIn(page);
  const { status, accessToken = "" } = await redeem(browser, code);
  expect([status, browser.cookies.has("flowgate-editor")]).toEqual([200, false]);
  expect(await identify(accessToken)).toEqual({ username: "company:ada", permissions: "*" });
  const settings = JSON.stringify({ editor: { view: { "view-grid-size": 30 } } });
  const changed = await send(url, "POST", "/settings/user", {
    headers: { ...bearer(accessToken), ...json },
    body: settings,
  });
  expect(changed.status).toBe(204);

  expect((await service.send("GET", "/flows", { headers: bearer(accessToken) })).status).toBe(401);
  const cookie = `flowgate-session=${accessToken}`;
  expect((await service.send("GET", "/flows", { headers: { cookie } })).status).toBe(401);
  const admin = bearer(await login(service, {}));
  const listed = (await service.send("GET", "/tokens?user=company:ada&pageSize=1", { headers: admin })).json();
  expect(listed).toMatchObject({ tokens: [{ clientId: "node-red-editor", valid: true }] });
  const audit = (await service.send("GET", "/audit?kind=sign_in&pageSize=2", { headers: admin })).json();
  expect(audit).toMatchObject({
    entries: [{ user: "admin" }, { user: "company:ada", detail: "a session of Node-RED's editor" }],
  });
  expect([accessToken, code].filter((secret) => service.log().includes(secret ?? ""))).toEqual([]);
});

test("a user signs in with a password on the page of the API's origin", async () => {
  const browser = new CookieBrowser();
  const wrong = await browser.submit(await follow(browser), { username: "admin", password: "wrong" });
  expect([wrong.status, codeIn(wrong)]).toEqual([403, undefined]);
  const right = await browser.submit(wrong, { username: "admin", password: passwordOf("admin") });
  const { accessToken = "" } = await redeem(browser, codeIn(right));
  expect(await identify(accessToken)).toEqual({ username: "admin", permissions: "*" });
  expect(browser.cookies.has("flowgate-session")).toBe(false);
});

test("a sign-in at the editor leaves the session of the browser alone", async () => {
  const browser = new CookieBrowser();
  await browser.visit(`${api}/sign-in?issuer=company`);
  const session = browser.cookies.get("flowgate-session");
  await tokenOf(browser);
  expect(browser.cookies.get("flowgate-session")).toBe(session);
  expect((await browser.send(`${api}/auth/identity`)).status).toBe(200);
});

describe("a code is refused", () => {
  const refused = { status: 400, accessToken: undefined };

  test("a second time, also with the cookie of the first time", async () => {
    const browser = new CookieBrowser();
    const code = codeIn(await signIn(browser));
    const kept = new Map(browser.cookies);
    expect((await redeem(browser, code)).status).toBe(200);
    kept.forEach((value, name) => browser.cookies.set(name, value));
    expect(await redeem(browser, code)).toEqual(refused);
  });

  test("in a browser that has not begun the sign-in, so that no one is signed in as someone else", async () => {
    const browser = new CookieBrowser();
    const code = codeIn(await signIn(browser));
    const victim = new CookieBrowser();
    expect(await redeem(victim, code)).toEqual(refused);
    // Also if it has begun one of its own.
    await follow(victim);
    expect(await redeem(victim, code)).toEqual(refused);
    expect((await redeem(browser, code)).status).toBe(200);
  });

  test("if the sign-in was begun again, or the code was changed", async () => {
    const browser = new CookieBrowser();
    const code = codeIn(await signIn(browser));
    await follow(browser);
    expect(await redeem(browser, code)).toEqual(refused);
    const other = new CookieBrowser();
    expect(await redeem(other, `${codeIn(await signIn(other))}A`)).toEqual(refused);
  });

  test("from a page of another origin", async () => {
    const browser = new CookieBrowser();
    const code = codeIn(await signIn(browser)) ?? "";
    const headers = { ...form, ...ofEditor(), origin: api };
    const reply = await browser.send(`${url}/auth/token`, "POST", { headers, body: `code=${code}` });
    expect(reply.status).toBe(403);
  });
});

test("a request that the editor has not made leads nowhere", async () => {
  const browser = new CookieBrowser();
  for (const path of ["/sign-in?issuer=company&editor=https://evil.example", "/sign-in?issuer=company&editor=AAAA"]) {
    const page = await browser.visit(api + path);
    expect([page.status, page.body]).toEqual([403, expect.stringContaining("start again there")]);
  }
  const offered = await follow(browser);
  const editor = new URL(offered.url).searchParams.get("editor") ?? "";
  const query = new URLSearchParams({ issuer: "company", editor, return: "https://evil.example" });
  const page = await browser.visit(`${api}/sign-in?${query.toString()}`);
  expect(codeIn(page)).toBeDefined();
  expect(page.body).not.toContain("evil.example");
});

test("someone without a rule, or without a permission that the editor can use, is refused", async () => {
  for (const sub of ["2", "3"]) {
    const page = await signIn(new CookieBrowser(), sub);
    expect([page.status, codeIn(page)]).toEqual([403, undefined]);
  }
  const browser = new CookieBrowser();
  const login = { username: "auditor", password: passwordOf("auditor") };
  const page = await browser.submit(await follow(browser), login);
  expect([page.status, page.body]).toEqual([
    403,
    expect.stringContaining("signed in as auditor, but have no permission that Node-RED&#39;s editor"),
  ]);
});

test("logging out ends the session here and at the provider", async () => {
  const browser = new CookieBrowser();
  const token = await tokenOf(browser);
  const headers = { ...form, ...ofEditor(), ...bearer(token) };
  const revoked = await browser.send(`${url}/auth/revoke`, "POST", { headers, body: `token=${token}` });
  const { redirect } = revoked.json() as { redirect: string };
  expect(redirect).toMatch(new RegExp(`^${provider.issuer}/session/end\\?`));
  expect(await identify(token)).toBe(401);
  await eventually(async () => expect(provider.requests).toContain("POST /token/revocation"));
});

test("a session ends when the provider says so, and its websocket with it", async () => {
  provider.lifetimeSeconds = 1;
  provider.people.set("4", { preferred_username: "bob", groups: ["admins"] });
  try {
    const token = await tokenOf(new CookieBrowser(), "4");
    const socket = new WebSocket(`${url.replace("http", "ws")}/comms`, { headers: { origin: url } });
    await once(socket, "open");
    const answered = once(socket, "message");
    socket.send(JSON.stringify({ auth: token }));
    const [answer] = (await answered) as [Buffer];
    expect(answer.toString()).toBe('{"auth":"ok"}');
    const closed = once(socket, "close");
    provider.people.set("4", { preferred_username: "bob", groups: [] });
    await eventually(async () => expect(await identify(token)).toBe(401));
    await closed;
  } finally {
    provider.lifetimeSeconds = 300;
  }
});

test.skipIf(missingBrowser !== undefined)("the unmodified editor signs in, works, and logs out", async () => {
  const [ownApi, ownUrl] = [await freeUrl(), await freeUrl()];
  await using local = await openProvider([ownApi], audience);
  local.people.set("1", { preferred_username: "ada", groups: ["admins"] });
  // Without users, the button leads to the only issuer.
  await using _ = await start(local, ownApi, ownUrl, []);
  await using browser = await openBrowser();
  await using editor = await Editor.open(browser, ownUrl);
  const { page } = editor;
  const button = page.locator("#node-dialog-login-fields").getByText("Sign in with company");
  await button.click();
  await editor.untilLoaded();
  // It removes the code from its URL.
  await page.waitForURL(({ searchParams }) => !searchParams.has("code"));
  await editor.drag("inject", 150, 100);
  expect(await editor.deploy()).toMatchObject({ type: "full" });
  await page.reload();
  await editor.untilLoaded();
  const token = await page.evaluate(`JSON.parse(localStorage.getItem("auth-tokens")).access_token`);
  expect(editor.requests.filter((each) => each.includes(String(token)))).toEqual([]);
  // What was asked before the login.
  expect(editor.complaints.filter((each) => !/401 \(/.test(each))).toEqual([]);
  await page.locator("#red-ui-header-button-user").click();
  await page.locator("#usermenu-item-logout").click();
  await page.waitForURL((each) => each.href.startsWith(local.issuer));
  expect(local.requests.some((each) => each.startsWith("GET /session/end"))).toBe(true);
});
