import { randomBytes } from "node:crypto";
import { pino } from "pino";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import type { TokenIssuer } from "../../src/auth/accounts.ts";
import { EditorSignIn } from "../../src/auth/editor-sign-in.ts";
import { Issuers } from "../../src/auth/issuers.ts";
import { createLimiter } from "../../src/auth/limiter.ts";
import { Sessions } from "../../src/auth/sessions.ts";
import { Sealer } from "../../src/auth/sealed.ts";
import { SignIn } from "../../src/auth/sign-in.ts";
import { FlowgateError } from "@flowgate/flows/errors";
import { createMemoryAttempts } from "../../src/store/login-attempts.ts";
import type { StoredToken } from "../../src/store/token-store.ts";
import { CookieBrowser } from "../e2e/cookie-browser.ts";
import { CredentialKeys, createKey } from "../../src/store/credential-keys.ts";
import { collectEvents, origin } from "./collect-events.ts";
import { createMemoryTokens, type MemoryTokens } from "./memory-tokens.ts";
import { clientId, clientSecret, openProvider, type OpenIdProvider } from "./openid-provider.ts";

const url = "http://127.0.0.1:8080";
const editorUrl = "http://127.0.0.1:1881";
const audience = "https://flows.example";

let provider: OpenIdProvider;
beforeAll(async () => {
  provider = await openProvider([url], audience);
});
afterAll(() => provider[Symbol.asyncDispose]());
afterEach(() => {
  provider.intercept = undefined;
  provider.givesRefreshTokens = true;
});

const keys = new CredentialKeys([createKey(randomBytes(32))]);
const client = { origin, kind: "network" } as const;

/** A process with sessions, at a time that the test sets. Processes share tokens. */
async function open(tokens = createMemoryTokens(), overrides: Partial<TokenIssuer> = {}, lifetimeSeconds = 43_200) {
  const clock = { aheadMs: 0 };
  const now = () => Date.now() + clock.aheadMs;
  const log = pino({ level: "silent" });
  const issuer: TokenIssuer = {
    name: "company",
    issuer: provider.issuer,
    audience,
    jwksUrl: provider.jwksUrl,
    algorithms: ["RS256"],
    usernameClaim: "sub",
    clockSkewSeconds: 30,
    rules: [{ claims: { groups: "people" }, permissions: ["read"] }],
    signIn: { clientId, clientSecret, scopes: ["openid", "profile", "groups"], parameters: {} },
    ...overrides,
  };
  const issuers = new Issuers({ log, now });
  const settings = { url, lifetimeSeconds };
  const sessions = new Sessions({ settings, tokens, log, now, timeoutMs: 1_000 });
  const replace = async (configured: readonly TokenIssuer[]) => {
    const install = await sessions.prepare(configured, issuers);
    await issuers.replace(configured);
    install();
  };
  await replace([issuer]);
  const insert = (token: StoredToken) => tokens.insert(token, { kind: "sign_in", origin });
  const authenticator = { issuesTokens: true, verifyLogin: () => Promise.reject(new Error()), insertLogin: insert };
  const shared = { settings, sealer: new Sealer(keys), sessions, tokens, now };
  const editor = new EditorSignIn({ ...shared, signInOrigin: url, url: editorUrl });
  const { audit, events } = collectEvents();
  const limiter = createLimiter(createMemoryAttempts(now));
  const signIn = new SignIn({ ...shared, authenticator, editor, limiter, audit });
  return {
    clock,
    events,
    sessions,
    signIn,
    editor,
    tokens,
    issuer,
    replace,
    [Symbol.dispose]: () => issuers[Symbol.dispose](),
  };
}

type Process = Awaited<ReturnType<typeof open>>;

/** Signs in someone who is new at the provider, and returns the claim `sub`. */
async function signIn({ signIn }: Process): Promise<string> {
  const sub = randomBytes(6).toString("hex");
  provider.people.set(sub, { preferred_username: "ada", groups: ["people"] });
  provider.visitor = sub;
  const { location, transaction } = await signIn.begin("company", {});
  const callback = await new CookieBrowser().visit(location, (next) => next.startsWith(url));
  const { pathname, search } = new URL(callback.url);
  await signIn.complete(pathname + search, transaction, client);
  return sub;
}

function stored(tokens: MemoryTokens, sub: string): StoredToken | undefined {
  return tokens.all.values().find(({ username }) => username === `company:${sub}`);
}

/** The caller with the session, or the reason why there is none. */
async function outcome({ sessions, tokens }: Process, sub: string, token = stored(tokens, sub)) {
  try {
    return token === undefined ? "no session" : (await sessions.principalOf(token)).permissions;
  } catch (error) {
    if (error instanceof FlowgateError) {
      return error.reason;
    }
    throw error;
  }
}

const refreshes = () => count("POST /token");

function count(request: string): number {
  return provider.requests.filter((each) => each === request).length;
}

test("claims are renewed when the access token of the provider has expired, once by all processes", async () => {
  using one = await open();
  using two = await open(one.tokens);
  const sub = await signIn(one);
  const before = refreshes();
  expect(await outcome(one, sub)).toEqual(["read"]);
  expect(refreshes()).toBe(before);
  [one, two].forEach(({ clock }) => (clock.aheadMs = 301_000));
  const token = stored(one.tokens, sub);
  const calls = [one, two, one, two].map((each) => outcome(each, sub, token));
  expect(await Promise.all(calls)).toEqual([["read"], ["read"], ["read"], ["read"]]);
  expect(refreshes()).toBe(before + 1);
  expect(await outcome(two, sub, token)).toEqual(["read"]);
  expect(refreshes()).toBe(before + 1);
  // The provider gives a new refresh token each time.
  [one, two].forEach(({ clock }) => (clock.aheadMs = 602_000));
  expect(await outcome(two, sub)).toEqual(["read"]);
  expect(refreshes()).toBe(before + 2);
});

test("while the provider does not respond, known claims stay in use for some time", async () => {
  using process = await open();
  const sub = await signIn(process);
  const before = refreshes();
  provider.intercept = ({ socket }) => socket.destroy() !== undefined;
  process.clock.aheadMs = 301_000;
  expect(await outcome(process, sub)).toEqual(["read"]);
  expect(await outcome(process, sub)).toEqual(["read"]);
  expect(refreshes()).toBe(before + 1);
  process.clock.aheadMs += 11_000;
  expect(await outcome(process, sub)).toEqual(["read"]);
  expect(refreshes()).toBe(before + 2);
  process.clock.aheadMs += 10 * 60_000;
  expect(await outcome(process, sub)).toBe("unavailable");
  provider.intercept = undefined;
  process.clock.aheadMs += 11_000;
  expect(await outcome(process, sub)).toEqual(["read"]);
});

test.each<[string, (process: Process, sub: string) => unknown]>([
  ["the person has left the provider", (_, sub) => provider.people.delete(sub)],
  ["no rule applies any more", (_, sub) => provider.people.set(sub, { preferred_username: "ada", groups: ["others"] })],
])("a session ends at its renewal when %s", async (_name, change) => {
  using process = await open();
  const sub = await signIn(process);
  await change(process, sub);
  expect(await outcome(process, sub)).toEqual(["read"]);
  process.clock.aheadMs = 301_000;
  expect(await outcome(process, sub)).toBe("invalid_token");
  expect(await outcome(process, sub)).toBe("no session");
  expect(process.tokens.entries.at(-1)).toMatchObject({
    kind: "token_revoked",
    detail: `the session of company:${sub} was ended by its issuer`,
  });
});

test.each<[string, (process: Process) => unknown]>([
  [
    "the rules have changed",
    ({ issuer, replace }) => replace([{ ...issuer, rules: [{ claims: { a: "b" }, permissions: [] }] }]),
  ],
  ["no one signs in at the issuer any more", ({ issuer, replace }) => replace([{ ...issuer, signIn: undefined }])],
  ["the issuer was removed", ({ replace }) => replace([])],
  ["another issuer has the name", ({ issuer, replace }) => replace([{ ...issuer, issuer: "https://another.example" }])],
  ["it has expired", ({ clock }) => (clock.aheadMs = 43_200_000)],
])("a session is not valid when %s", async (_name, change) => {
  using process = await open();
  const sub = await signIn(process);
  const token = stored(process.tokens, sub) as StoredToken;
  expect(process.sessions.isValid(token)).toBe(true);
  await change(process);
  expect(process.sessions.isValid(token)).toBe(false);
  expect(await outcome(process, sub)).toBe("invalid_token");
});

test("a session that the store can't decrypt any more has ended", async () => {
  using process = await open();
  const one = await signIn(process);
  const mine = stored(process.tokens, one) as StoredToken;
  expect(await outcome(process, one, { ...mine, session: "" })).toBe("invalid_token");
  expect(await outcome(process, one, { ...mine })).toEqual(["read"]);
});

test("a session does not permit to deploy without approval, which a login has to ask for by name", async () => {
  const permissions = ["read", "flows.deploy_unapproved"];
  using process = await open(undefined, { rules: [{ claims: { groups: "people" }, permissions }] });
  const sub = await signIn(process);
  expect(stored(process.tokens, sub)?.scope).toBe("read");
  expect(await outcome(process, sub)).toEqual(["read"]);
  expect(process.sessions.createForUser("ada", ["*", "flows.deploy_unapproved"], Buffer.alloc(32)).token.scope).toBe(
    "*",
  );
});

test("a session that can't be renewed ends after an hour", async () => {
  using process = await open();
  provider.givesRefreshTokens = false;
  const sub = await signIn(process);
  expect(stored(process.tokens, sub)?.expiresAtMs).toBeLessThanOrEqual(Date.now() + 3_600_000);
  process.clock.aheadMs = 3_590_000;
  expect(await outcome(process, sub)).toEqual(["read"]);
});

test("a provider that does not respond in time is not asked again for some seconds", async () => {
  using process = await open();
  provider.intercept = () => true;
  const begin = async () => {
    try {
      return await process.signIn.begin("company", {});
    } catch (error) {
      return (error as FlowgateError).reason;
    }
  };
  const discovery = "GET /.well-known/openid-configuration";
  const before = count(discovery);
  expect(await Promise.all([begin(), begin()])).toEqual(["unavailable", "unavailable"]);
  expect(await begin()).toBe("unavailable");
  expect(count(discovery)).toBe(before + 1);
  provider.intercept = undefined;
  process.clock.aheadMs = 10_000;
  expect(await begin()).toMatchObject({ location: expect.stringContaining(provider.issuer) });
});

test.each<[string, object]>([
  ["another issuer", { issuer: "https://other.example" }],
  ["an endpoint without TLS", { token_endpoint: "http://id.example/token" }],
  ["a script as an endpoint", { end_session_endpoint: "javascript://127.0.0.1/%0aalert(1)" }],
])("metadata with %s are not used", async (_name, change) => {
  using process = await open();
  const metadata = await fetch(`${provider.issuer}/.well-known/openid-configuration`);
  const changed = JSON.stringify({ ...((await metadata.json()) as object), ...change });
  provider.intercept = (_request, response) => {
    response.writeHead(200, { "content-type": "application/json" }).end(changed);
    return true;
  };
  await expect(process.signIn.begin("company", {})).rejects.toMatchObject({ reason: "unavailable" });
});

test("a sign-in that takes too long is not completed", async () => {
  using process = await open();
  const { location, transaction } = await process.signIn.begin("company", {});
  provider.people.set("late", { preferred_username: "late", groups: ["people"] });
  provider.visitor = "late";
  const callback = await new CookieBrowser().visit(location, (next) => next.startsWith(url));
  const { pathname, search } = new URL(callback.url);
  process.clock.aheadMs = 600_000;
  await expect(process.signIn.complete(pathname + search, transaction, client)).rejects.toThrow(
    "The sign-in was not begun in this browser, or has taken too long: start again.",
  );
});

test("a file with the secret of the client must exist", async () => {
  using process = await open();
  const { issuer } = process;
  const signIn = { clientId, clientSecretFile: "/nowhere/secret", scopes: ["openid"], parameters: {} };
  await expect(process.replace([{ ...issuer, signIn }])).rejects.toThrow(
    "adminAuth.issuers: clientSecretFile of company can't be used: ENOENT",
  );
});

/** Signs in someone at the editor; the code and the secret with which it gets its token. */
async function signInAtEditor(process: Process): Promise<[code: string, secret: string]> {
  const { location: offered, secret } = process.editor.begin();
  const editor = new URL(offered).searchParams.get("editor") ?? "";
  const { location, transaction } = await process.signIn.begin("company", { editor });
  const callback = await new CookieBrowser().visit(location, (next) => next.startsWith(url));
  const { pathname, search } = new URL(callback.url);
  const signedIn = await process.signIn.complete(pathname + search, transaction, client);
  expect([signedIn.session, new URL(signedIn.url).origin]).toEqual([undefined, editorUrl]);
  return [new URL(signedIn.url).searchParams.get("code") ?? "", secret];
}

test("the editor gets a token for a code once, from any process, and only for a minute", async () => {
  using one = await open();
  using two = await open(one.tokens);
  provider.people.set("editor", { preferred_username: "ada", groups: ["people"] });
  provider.visitor = "editor";
  const [code, secret] = await signInAtEditor(one);
  const [other] = await signInAtEditor(one);
  expect(await two.editor.redeem(code, "another")).toBeUndefined();
  const tokens = await Promise.all([one, two, one].map(({ editor }) => editor.redeem(code, secret)));
  expect(tokens.filter((token) => token !== undefined)).toEqual([expect.stringMatching(/^[\w-]{43}$/)]);
  const [late, ofLate] = await signInAtEditor(two);
  two.clock.aheadMs = 60_000;
  expect(await two.editor.redeem(late, ofLate)).toBeUndefined();
  expect(await two.editor.redeem(other, secret)).toBeUndefined();
});

test("a request of the editor can be used for ten minutes", async () => {
  using process = await open();
  const editor = new URL(process.editor.begin().location).searchParams.get("editor") ?? "";
  process.clock.aheadMs = 600_000;
  await expect(process.signIn.begin("company", { editor })).rejects.toThrow(
    "The sign-in has taken too long: open the editor, and start again there.",
  );
});

test("the codes that one address sends are limited, since each is a request to the issuer", async () => {
  using process = await open();
  const { location, transaction } = await process.signIn.begin("company", {});
  const state = new URL(location).searchParams.get("state") ?? "";
  const query = new URLSearchParams({ state, code: "guess", iss: provider.issuer }).toString();
  const guess = async () => {
    try {
      return await process.signIn.complete(`/sign-in/callback/company?${query}`, transaction, client);
    } catch (error) {
      return (error as FlowgateError).reason;
    }
  };
  const before = refreshes();
  const outcomes: unknown[] = [];
  for (let guesses = 0; guesses < 52; guesses++) {
    outcomes.push(await guess());
  }
  expect(outcomes.slice(0, 50)).toEqual(Array.from({ length: 50 }, () => "invalid_token"));
  expect(outcomes.slice(50)).toEqual(["temporarily_unavailable", "temporarily_unavailable"]);
  expect(refreshes()).toBe(before + 50);
  expect(process.events.at(-1)).toMatchObject({ kind: "sign_in_failed", detail: "issuer company: locked out" });
});

test("a new refresh token is kept if the claims can't be verified just then", async () => {
  using one = await open();
  const sub = await signIn(one);
  provider.intercept = (request, response) => {
    const isKeys = request.url === "/jwks";
    if (isKeys) {
      response.writeHead(503).end();
    }
    return isKeys;
  };
  // It has not read the keys before.
  using two = await open(one.tokens);
  two.clock.aheadMs = 301_000;
  const before = refreshes();
  expect(await outcome(two, sub)).toEqual(["read"]);
  expect(refreshes()).toBe(before + 1);
  provider.intercept = undefined;
  two.clock.aheadMs += 31_000;
  expect(await outcome(two, sub)).toEqual(["read"]);
  expect(refreshes()).toBe(before + 2);
  // The provider ends a session whose refresh token is used twice.
  two.clock.aheadMs += 301_000;
  expect(await outcome(two, sub)).toEqual(["read"]);
});
