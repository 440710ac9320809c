import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { SignJWT, UnsecuredJWT, exportSPKI, importJWK } from "jose";
import { pino } from "pino";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import type { TokenIssuer } from "../../src/auth/accounts.ts";
import type { Principal } from "../../src/auth/caller.ts";
import { Issuers } from "../../src/auth/issuers.ts";
import { FlowgateError } from "@flowgate/flows/errors";
import {
  type Claims,
  type LocalIssuer,
  audience,
  configure,
  createKey,
  issuerUrl,
  openIssuer,
} from "./local-issuer.ts";

const startMs = Date.UTC(2026, 0, 1);
const startSeconds = startMs / 1000;

/** Accepts tokens of an issuer at a time that the test sets. */
async function accept(issuer: LocalIssuer, overrides: Partial<TokenIssuer> = {}, timeoutMs?: number) {
  const clock = { nowMs: startMs };
  const lines: { msg: string; reason?: string }[] = [];
  const log = pino({}, { write: (line: string) => void lines.push(JSON.parse(line) as (typeof lines)[number]) });
  const issuers = new Issuers({ log, now: () => clock.nowMs, ...(timeoutMs !== undefined && { timeoutMs }) });
  await issuers.replace([configure({ jwksUrl: issuer.jwksUrl, ...overrides })]);
  return {
    clock,
    lines,
    issuers,
    sign: async (claims: Claims = {}, key = issuer.keys[0]) =>
      await issuer.sign(claims, { nowMs: clock.nowMs, ...(key && { key }) }),
    [Symbol.dispose]: () => issuers[Symbol.dispose](),
  };
}

/** The caller, or the reason of the rejection and its message. */
async function outcome(issuers: Issuers, token: string): Promise<Principal | string> {
  try {
    return await issuers.authenticate(token);
  } catch (error) {
    if (error instanceof FlowgateError) {
      return `${error.reason}: ${error.message}`;
    }
    throw error;
  }
}

const reader: Principal = { username: "local:someone", permissions: ["read"] };

let issuer: LocalIssuer;
beforeAll(async () => {
  issuer = await openIssuer();
});
afterAll(() => issuer[Symbol.asyncDispose]());

test("a token is accepted, and remembered until it expires", async () => {
  using served = await accept(issuer);
  await outcome(served.issuers, await served.sign({ sub: "other" }));
  const token = await served.sign();
  const first = served.issuers.authenticate(token);
  expect(first).toBeInstanceOf(Promise);
  expect(await first).toEqual(reader);
  expect(served.issuers.authenticate(token)).toBe(await first);
  served.clock.nowMs += 89_999;
  expect(served.issuers.authenticate(token)).toBe(await first);
  served.clock.nowMs += 1;
  expect(await outcome(served.issuers, token)).toBe(
    "invalid_token: The access token has expired: get another one from its issuer.",
  );
});

test("the id of a token is recorded with what it does", async () => {
  using served = await accept(issuer);
  const id = "b6a1d6f0-7c1c-4b3e-9b1d-0d5a3c1e8f7a";
  expect(await outcome(served.issuers, await served.sign({ jti: id }))).toEqual({ ...reader, token: { id } });
  for (const jti of [7, "a\nb", ""]) {
    expect(await outcome(served.issuers, await served.sign({ jti }))).toEqual(reader);
  }
});

test.each<[string, Claims, string]>([
  ["expired", { exp: startSeconds - 30 }, "The access token has expired: get another one from its issuer."],
  ["without an expiry", { exp: undefined }, claim("exp")],
  ["not yet valid", { nbf: startSeconds + 31 }, claim("nbf")],
  ["for another audience", { aud: "https://other.example" }, claim("aud")],
  ["for no audience", { aud: undefined }, claim("aud")],
  [
    "of another issuer",
    { iss: "https://other.example" },
    "The access token is of an issuer that this service does not accept.",
  ],
  ["without an issuer", { iss: undefined }, "The access token is of an issuer that this service does not accept."],
  ["without a name", { sub: undefined }, name("sub")],
  ["with a name that is not printable", { sub: "some\none" }, name("sub")],
])("a token that is %s is rejected", async (_name, claims, message) => {
  using served = await accept(issuer);
  expect(await outcome(served.issuers, await served.sign(claims))).toBe(`invalid_token: ${message}`);
});

function claim(name: string): string {
  return `The access token is not valid here: its claim ${name} is missing or not the expected one.`;
}

function name(claim: string): string {
  return `The claim ${claim} of the access token must be a printable name of at most 500 characters.`;
}

test.each<Claims>([
  { exp: startSeconds - 29 },
  { nbf: startSeconds + 30 },
  { aud: ["https://other.example", audience] },
])("a token with %j is accepted", async (claims) => {
  using served = await accept(issuer);
  expect(await outcome(served.issuers, await served.sign(claims))).toEqual(reader);
});

const claims = { iss: issuerUrl, aud: audience, sub: "someone", exp: startSeconds + 60 };

test("a token without a signature, or one whose key is a public one, is rejected", async () => {
  await using other = await openIssuer(0, [await createKey("rsa", "RS256")]);
  using served = await accept(other);
  expect(await outcome(served.issuers, await served.sign())).toEqual(reader);
  const wrongAlgorithm =
    "invalid_token: The access token is not signed with an algorithm that is configured for its issuer.";
  expect(await outcome(served.issuers, new UnsecuredJWT(claims).encode())).toMatch(/^invalid_token: /);
  const header = Buffer.from(JSON.stringify({ alg: "none", kid: "rsa" })).toString("base64url");
  const [, payload = "", signature = ""] = (await served.sign()).split(".");
  expect(await outcome(served.issuers, `${header}.${payload}.`)).toBe(wrongAlgorithm);
  expect(await outcome(served.issuers, `${header}.${payload}.${signature}`)).toBe(wrongAlgorithm);
  const { publicJwk } = other.keys[0] ?? {};
  const publicKey = await importJWK(publicJwk ?? {}, "RS256", { extractable: true });
  for (const secret of [
    await exportSPKI(publicKey as Parameters<typeof exportSPKI>[0]),
    JSON.stringify(publicJwk),
    publicJwk?.n ?? "",
  ]) {
    const forged = await new SignJWT(claims)
      .setProtectedHeader({ alg: "HS256", kid: "rsa" })
      .sign(new TextEncoder().encode(secret));
    expect(await outcome(served.issuers, forged)).toBe(wrongAlgorithm);
  }
});

test.each([
  ["too short", { kty: "RSA", alg: "RS256", n: Buffer.alloc(64, 0xc3).toString("base64url"), e: "AQAB" }],
  ["malformed", { kty: "EC", crv: "P-256", alg: "ES256", x: "AAAA", y: "AAAA" }],
] as const)("a token that names a published key that is %s is rejected", async (_, jwk) => {
  const { privateKey } = await createKey("odd", jwk.alg);
  await using other = await openIssuer(0, [{ kid: "odd", privateKey, publicJwk: { ...jwk, kid: "odd" } }]);
  using served = await accept(other);
  expect(await outcome(served.issuers, await served.sign())).toMatch(/^invalid_token: The access token /);
});

test("only the pinned algorithms are accepted", async () => {
  using served = await accept(issuer, { algorithms: ["RS256"] });
  expect(await outcome(served.issuers, await served.sign())).toBe(
    "invalid_token: The access token is not signed with an algorithm that is configured for its issuer.",
  );
});

test("changed and malformed tokens are rejected", async () => {
  using served = await accept(issuer);
  const [header = "", payload = "", signature = ""] = (await served.sign()).split(".");
  const admin = Buffer.from(JSON.stringify({ ...claims, sub: "admin" })).toString("base64url");
  expect(await outcome(served.issuers, `${header}.${admin}.${signature}`)).toBe(
    "invalid_token: The access token has an invalid signature.",
  );
  const list = Buffer.from("[]").toString("base64url");
  for (const token of [`${header}.x.${signature}`, `x.${payload}.${signature}`, `${header}.${list}.${signature}`]) {
    expect(await outcome(served.issuers, token)).toBe("invalid_token: The access token is malformed.");
  }
  // Signed with another key that has the same id.
  const forged = await served.sign({}, await createKey("first"));
  expect(await outcome(served.issuers, forged)).toBe("invalid_token: The access token has an invalid signature.");
});

test("the permissions are those of all rules that match, and a token without a matching rule is rejected", async () => {
  using served = await accept(issuer, {
    usernameClaim: "email",
    rules: [
      { claims: { groups: "readers" }, permissions: ["read"] },
      { claims: { groups: "deployers", mfa: "true", level: "3" }, permissions: ["flows.write", "read"] },
      { claims: { constructor: "x" }, permissions: ["*"] },
    ],
  });
  const permissionsOf = async (claims: Claims) => {
    const found = await outcome(served.issuers, await served.sign({ email: "ada@example", ...claims }));
    return typeof found === "string" ? found : found.permissions;
  };
  const noRule =
    "invalid_token: The access token is valid, but local:ada@example has no access: no rule of its issuer applies. Ask an administrator of this service for one.";
  const groups = ["readers", "deployers"];
  expect(await permissionsOf({ groups: "readers" })).toEqual(["read"]);
  expect(await permissionsOf({ groups, mfa: true, level: 3 })).toEqual(["read", "flows.write"]);
  expect(await permissionsOf({ groups, mfa: false, level: 3 })).toEqual(["read"]);
  expect(await permissionsOf({ groups, mfa: [true], level: "3" })).toEqual(["read", "flows.write"]);
  expect(await permissionsOf({})).toBe(noRule);
  expect(await permissionsOf({ groups: ["Readers", "reader", "readers "] })).toBe(noRule);
  expect(await permissionsOf({ groups: { readers: true } })).toBe(noRule);
});

test("a rotated key is read when a token has it, at most every 10 seconds", async () => {
  const [first, second] = [await createKey("a"), await createKey("b")];
  await using rotating = await openIssuer(0, [first]);
  using served = await accept(rotating);
  const unknown = "invalid_token: The access token is signed with a key that its issuer does not publish.";
  expect(await outcome(served.issuers, await served.sign())).toEqual(reader);
  expect(rotating.requests()).toBe(1);
  rotating.keys = [first, second];
  expect(await outcome(served.issuers, await served.sign({}, second))).toBe(unknown);
  served.clock.nowMs += 10_000;
  expect(await outcome(served.issuers, await served.sign({}, second))).toEqual(reader);
  expect(rotating.requests()).toBe(2);
  // A flood of tokens with unknown keys.
  served.clock.nowMs += 10_000;
  const stranger = await createKey("stranger");
  const tokens = await Promise.all(Array.from({ length: 20 }, (_, at) => served.sign({ at }, stranger)));
  expect(new Set(await Promise.all(tokens.map((token) => outcome(served.issuers, token))))).toEqual(new Set([unknown]));
  expect(rotating.requests()).toBe(3);
});

test("a removed key is rejected from the next regular read on, also for tokens that were verified", async () => {
  vi.useFakeTimers({ toFake: ["setInterval", "clearInterval"] });
  try {
    const [first, second] = [await createKey("a"), await createKey("b")];
    await using rotating = await openIssuer(0, [first]);
    using served = await accept(rotating);
    const token = await served.sign({ exp: startSeconds + 3600 });
    expect(await outcome(served.issuers, token)).toEqual(reader);
    rotating.keys = [second];
    expect(await outcome(served.issuers, token)).toEqual(reader);
    vi.advanceTimersByTime(5 * 60_000);
    await vi.waitFor(async () => expect(await outcome(served.issuers, token)).toMatch(/does not publish/));
    expect(rotating.requests()).toBe(2);
  } finally {
    vi.useRealTimers();
  }
});

const unavailable =
  "unavailable: The access token can't be verified, since the keys of the issuer local can't be read now: try again.";

test.each<[string, (issuer: LocalIssuer) => unknown, string]>([
  ["is down", (issuer) => issuer.stop(), "ECONNREFUSED"],
  [
    "fails",
    (issuer) => (issuer.respond = (response) => response.writeHead(500).end("an error")),
    "the response has the status 500",
  ],
  [
    "redirects",
    (issuer) => (issuer.respond = (response) => response.writeHead(302, { location: "/other" }).end()),
    "unexpected redirect",
  ],
  [
    "responds with something else",
    (issuer) => (issuer.respond = (response) => response.end("<html>")),
    "it is not a JSON Web Key Set",
  ],
  [
    "responds with too much",
    (issuer) => (issuer.respond = (response) => response.end(" ".repeat(1024 * 1024 + 1))),
    "the response has more than 1048576 bytes",
  ],
  ["does not respond", (issuer) => (issuer.respond = () => {}), "The operation was aborted due to timeout"],
])("while the provider %s, known keys stay in use and others get `unavailable`", async (_name, fail, reason) => {
  const [first, second] = [await createKey("a"), await createKey("b")];
  await using failing = await openIssuer(0, [first]);
  // The keys must be read in this time once, also on a busy machine.
  using served = await accept(failing, {}, 2_000);
  expect(await outcome(served.issuers, await served.sign())).toEqual(reader);
  await fail(failing);
  served.clock.nowMs += 10_000;
  expect(await outcome(served.issuers, await served.sign({}, second))).toBe(unavailable);
  expect(await outcome(served.issuers, await served.sign({ again: true }))).toEqual(reader);
  expect(served.lines).toMatchObject([
    { msg: "the keys of an issuer can't be read: the known ones stay in use", issuer: "local", reason },
  ]);
});

test("known keys are not delayed by a provider that is slow", async () => {
  const [first, second] = [await createKey("a"), await createKey("b")];
  await using slow = await openIssuer(0, [first]);
  using served = await accept(slow);
  expect(await outcome(served.issuers, await served.sign())).toEqual(reader);
  const requested = Promise.withResolvers<(body: string) => void>();
  slow.respond = (response) => requested.resolve((body) => void response.end(body));
  served.clock.nowMs += 10_000;
  const waiting = outcome(served.issuers, await served.sign({}, second));
  const respond = await requested.promise;
  expect(await outcome(served.issuers, await served.sign({ again: true }))).toEqual(reader);
  respond(JSON.stringify({ keys: [second.publicJwk] }));
  expect(await waiting).toEqual(reader);
});

test("a provider that is slow holds one call at a time", async () => {
  const [first, second] = [await createKey("a"), await createKey("b")];
  await using slow = await openIssuer(0, [first]);
  using served = await accept(slow, {}, 2_000);
  expect(await outcome(served.issuers, await served.sign())).toEqual(reader);
  slow.respond = (response) => void response.writeHead(500).end();
  served.clock.nowMs += 10_000;
  expect(await outcome(served.issuers, await served.sign({}, second))).toBe(unavailable);
  const requested = Promise.withResolvers<(body: string) => void>();
  slow.respond = (response) => requested.resolve((body) => void response.end(body));
  served.clock.nowMs += 10_000;
  const held = outcome(served.issuers, await served.sign({}, second));
  const respond = await requested.promise;
  expect(await outcome(served.issuers, await served.sign({ again: true }, second))).toBe(unavailable);
  respond(JSON.stringify({ keys: [second.publicJwk] }));
  expect(await held).toEqual(reader);
  expect(await outcome(served.issuers, await served.sign({ again: true }, second))).toEqual(reader);
});

test("an expired token is invalid also while the keys can't be read", async () => {
  await using failing = await openIssuer();
  failing.respond = (response) => void response.writeHead(500).end();
  using served = await accept(failing);
  const token = await served.sign({ exp: startSeconds + 10 });
  expect(await outcome(served.issuers, token)).toBe(unavailable);
  served.clock.nowMs += 40_000;
  expect(await outcome(served.issuers, token)).toMatch(/^invalid_token: The access token has expired/);
});

test("a provider that is down at the start is asked again", async () => {
  const reserved = createServer().listen(0, "127.0.0.1");
  await once(reserved, "listening");
  const { port } = reserved.address() as AddressInfo;
  reserved.close();
  await once(reserved, "close");
  const key = await createKey("a");
  const token = await issuer.sign({}, { key, nowMs: startMs });
  using served = await accept({ ...issuer, jwksUrl: `http://127.0.0.1:${port}/keys` });
  expect(await outcome(served.issuers, token)).toBe(unavailable);
  await using _ = await openIssuer(port, [key]);
  expect(await outcome(served.issuers, token)).toBe(unavailable);
  served.clock.nowMs += 10_000;
  expect(await outcome(served.issuers, token)).toEqual(reader);
  expect(served.lines.map(({ msg }) => msg)).toEqual([
    "the keys of an issuer can't be read: the known ones stay in use",
    "the keys of an issuer can be read again",
  ]);
});

test("keys are read from a file, which may be replaced", async () => {
  const folder = await mkdtemp(join(tmpdir(), "flowgate-keys-"));
  try {
    const jwksFile = join(folder, "keys.json");
    const write = (...keys: readonly { publicJwk: object }[]) =>
      writeFile(jwksFile, JSON.stringify({ keys: keys.map(({ publicJwk }) => publicJwk) }));
    const unusable = accept(issuer, { jwksUrl: undefined, jwksFile });
    await expect(unusable).rejects.toThrow(/^adminAuth\.issuers: jwksFile of local can't be used: ENOENT$/);
    await writeFile(jwksFile, "not JSON");
    await expect(accept(issuer, { jwksUrl: undefined, jwksFile })).rejects.toThrow(/it is not a JSON Web Key Set$/);
    const [first, second] = [await createKey("a"), await createKey("b")];
    await write(first);
    using served = await accept(issuer, { jwksUrl: undefined, jwksFile });
    expect(await outcome(served.issuers, await served.sign({}, first))).toEqual(reader);
    await write(first, second);
    served.clock.nowMs += 10_000;
    expect(await outcome(served.issuers, await served.sign({}, second))).toEqual(reader);
  } finally {
    await rm(folder, { recursive: true });
  }
});

test("replaced issuers apply to tokens that were verified, and keep their keys while the provider is down", async () => {
  await using down = await openIssuer();
  using served = await accept(down);
  const token = await served.sign();
  expect(await outcome(served.issuers, token)).toEqual(reader);
  await down.stop();
  const rules = [{ claims: { sub: "someone" }, permissions: ["flows.read"] }];
  await served.issuers.replace([configure({ jwksUrl: down.jwksUrl, rules })]);
  expect(await outcome(served.issuers, token)).toEqual({ ...reader, permissions: ["flows.read"] });
  await served.issuers.replace([]);
  expect(await outcome(served.issuers, token)).toMatch(/^invalid_token: The access token is of an issuer/);
});
