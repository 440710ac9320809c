import type { DescMessage } from "@bufbuild/protobuf";
import { hash } from "node:crypto";
import { Worker } from "node:worker_threads";
import { hashSync } from "bcryptjs";
import { expect, test, vi } from "vitest";
import { TokenErrorReason, TokenErrorSchema } from "../../gen/flowgate/v1/auth_pb.ts";
import { UnauthorizedSchema } from "../../gen/flowgate/v1/access_pb.ts";
import { createLimiter } from "../../src/auth/limiter.ts";
import { createMemoryAttempts } from "../../src/store/login-attempts.ts";
import type { AdminAuth } from "../../src/auth/accounts.ts";
import { Authenticator } from "../../src/auth/authenticator.ts";
import type { TokenRequest } from "../../src/auth/token-request.ts";
import { FlowgateError } from "@flowgate/flows/errors";
import { type Tokens, openTokenCache } from "../../src/auth/token-cache.ts";
import { collectEvents, origin } from "./collect-events.ts";
import { createMemoryTokens } from "./memory-tokens.ts";
import { adminAuth, known } from "./users.ts";

const ada = adminAuth({ ada: ["*"], bob: ["read"], eve: ["flows.write"] });

function open(
  configured: AdminAuth | "off" = ada,
  tokens = createMemoryTokens(),
  now?: () => number,
  cache: Tokens = tokens,
) {
  const { audit, uses, events, used } = collectEvents();
  const authenticator = new Authenticator({
    adminAuth: configured === "off" ? undefined : configured,
    tokens: cache,
    uses,
    audit,
    permissions: known,
    limiter: createLimiter(createMemoryAttempts(now)),
    ...(now !== undefined && { now }),
  });
  const issue = (request: Partial<TokenRequest> = {}, authorization: string | null = null) =>
    authenticator.issueToken(
      {
        clientId: "service-admin",
        grantType: "password",
        scope: "*",
        username: "ada",
        password: "ada-secret",
        ...request,
      },
      { origin, authorization },
    );
  return { authenticator, issue, tokens, events, used };
}

async function failure(promise: Promise<unknown>): Promise<FlowgateError> {
  const error = await promise.then(
    () => new Error("it succeeded"),
    (error: unknown) => error,
  );
  if (!(error instanceof FlowgateError)) {
    throw error;
  }
  return error;
}

function detailsOf(error: FlowgateError, schema: DescMessage): unknown[] {
  return error.details.filter(({ desc }) => desc === schema).map(({ value }) => value);
}

test("issues a token, and stores only its hash", async () => {
  const { issue, tokens } = open(ada, createMemoryTokens(), () => 5000);
  const issued = await issue({ scope: "flows.read read" });
  expect(issued).toEqual({
    accessToken: expect.stringMatching(/^[\w-]{43}$/),
    expiresIn: 604_800,
    tokenType: "Bearer",
  });
  expect([...tokens.all.values()]).toEqual([
    {
      id: expect.stringMatching(/^[\da-f]{24}$/),
      hash: hash("sha256", issued.accessToken, "buffer"),
      name: undefined,
      username: "ada",
      passwordFingerprint: hash("sha256", ada.users[0]?.password ?? "", "buffer"),
      clientId: "service-admin",
      scope: "flows.read read",
      createdAtMs: 5000,
      expiresAtMs: 604_805_000,
    },
  ]);
});

const missing = (name: string) => `The parameter ${name} is missing or empty.`;
const scopes =
  "The scope must be a space-separated list, of at most 4096 characters, of: *, read, flows.read, flows.write, settings.read, flows.write@tab:LABEL, viewer, deployer, operator, admin.";

test.each<[Partial<TokenRequest>, string, TokenErrorReason, string]>([
  [{ clientId: "", grantType: "" }, "invalid_request", TokenErrorReason.INVALID_REQUEST, missing("client_id")],
  [{ grantType: "" }, "invalid_request", TokenErrorReason.INVALID_REQUEST, missing("grant_type")],
  [{ scope: "" }, "invalid_request", TokenErrorReason.INVALID_REQUEST, missing("scope")],
  [{ username: "" }, "invalid_request", TokenErrorReason.INVALID_REQUEST, missing("username")],
  [{ clientId: "x", password: "" }, "invalid_request", TokenErrorReason.INVALID_REQUEST, missing("password")],
  [
    { clientId: "node-red-admin", grantType: "code" },
    "invalid_client",
    TokenErrorReason.INVALID_CLIENT,
    "This client_id is not configured.",
  ],
  [
    { grantType: "code", scope: "x" },
    "unsupported_grant_type",
    TokenErrorReason.UNSUPPORTED_GRANT_TYPE,
    "The only grant_type is password.",
  ],
  [{ scope: "flows", password: "wrong" }, "invalid_scope", TokenErrorReason.INVALID_SCOPE, scopes],
  [{ scope: "read " }, "invalid_scope", TokenErrorReason.INVALID_SCOPE, scopes],
  [
    { password: "wrong", scope: "read" },
    "invalid_grant",
    TokenErrorReason.INVALID_GRANT,
    "The username or the password is wrong.",
  ],
  [
    { username: "bob", password: "bob-secret" },
    "invalid_scope",
    TokenErrorReason.INVALID_SCOPE,
    "The scope exceeds the permissions of this user.",
  ],
  [
    { username: "bob", password: "ada-secret" },
    "invalid_grant",
    TokenErrorReason.INVALID_GRANT,
    "The username or the password is wrong.",
  ],
])("rejects %j as %s", async (request, reason, error, errorDescription) => {
  const failed = await failure(open().issue(request));
  expect(failed.reason).toBe(reason);
  expect(failed.message).toBe(errorDescription);
  expect(detailsOf(failed, TokenErrorSchema)).toMatchObject([{ error, errorDescription }]);
});

test.each(["nobody", "constructor", "__proto__", "toString", "x".repeat(100_000)])(
  "rejects an unknown user like a wrong password",
  async (username) => {
    const { issue } = open();
    const wrong = await failure(issue({ password: "wrong" }));
    const unknown = await failure(issue({ username }));
    expect(unknown.reason).toBe(wrong.reason);
    expect(unknown.message).toBe(wrong.message);
    expect(unknown.details).toEqual(wrong.details);
  },
);

test("rejects an unknown user even with the password of the user whose hash is checked", async () => {
  const { issue } = open(adminAuth({ ada: ["*"] }));
  expect((await failure(issue({ username: "nobody" }))).reason).toBe("invalid_grant");
});

test("checks the password of an unknown user like that of a known one: once, with the same hash", async () => {
  const slow = { username: "ada", password: hashSync("ada-secret", 5), permissions: ["*"] };
  const { issue } = open({ ...ada, users: [slow] });
  // Counts the passwords that are passed to the bcrypt thread.
  const asked = vi.spyOn(Worker.prototype, "postMessage");
  try {
    await failure(issue({ password: "wrong" }));
    await failure(issue({ username: "nobody", password: "wrong" }));
    const question = { password: "wrong", hash: slow.password };
    expect(asked.mock.calls).toEqual([[question], [question]]);
  } finally {
    asked.mockRestore();
  }
});

test.each(["ada", "nobody"])("locks out %s after five failures, with the seconds to wait", async (username) => {
  let nowMs = 0;
  const { issue } = open(ada, createMemoryTokens(), () => nowMs);
  await Promise.all(Array.from({ length: 5 }, () => failure(issue({ username, password: "wrong" }))));
  nowMs = 100_500;
  const error = await failure(issue({ username }));
  expect(error.reason).toBe("temporarily_unavailable");
  expect(error.retryAfterMs).toBe(500_000);
  expect(detailsOf(error, TokenErrorSchema)).toMatchObject([
    {
      error: TokenErrorReason.TEMPORARILY_UNAVAILABLE,
      errorDescription: "Too many failed attempts; try again later.",
      retryAfter: 500,
    },
  ]);
  await issue({ username: "bob", password: "bob-secret", scope: "read" });
});

test("does not count an excessive scope as a failed login, since the password was correct", async () => {
  const { issue } = open();
  for (let at = 0; at < 3; at += 1) {
    await Promise.all(Array.from({ length: 4 }, () => failure(issue({ username: "bob", password: "wrong" }))));
    expect((await failure(issue({ username: "bob", password: "bob-secret" }))).reason).toBe("invalid_scope");
  }
});

test("reports that adminAuth is not set", async () => {
  const { issue, authenticator } = open("off");
  expect(authenticator.login()).toEqual({});
  expect(authenticator.required).toBe(false);
  expect(authenticator.authenticate("Bearer nonsense")).toEqual({ username: undefined, permissions: ["*"] });
  const error = await failure(issue({ clientId: "" }));
  expect(error.reason).toBe("auth_disabled");
  expect(detailsOf(error, TokenErrorSchema)).toMatchObject([
    {
      error: TokenErrorReason.INVALID_REQUEST,
      errorDescription: "This service needs no token: its adminAuth is not set.",
    },
  ]);
});

test("returns the prompts of a login", () => {
  expect(open().authenticator.login()).toEqual({
    type: "credentials",
    prompts: [
      { id: "username", type: "text", label: "Username" },
      { id: "password", type: "password", label: "Password" },
    ],
  });
});

test("returns the user of a token, with the permissions of both its scope and its user", async () => {
  const { issue, authenticator } = open();
  const { accessToken } = await issue({ scope: "read" });
  const principal = { username: "ada", token: { id: expect.any(String), name: undefined }, permissions: ["read"] };
  expect(await authenticator.authenticate(`Bearer ${accessToken}`)).toEqual(principal);
  expect(await authenticator.authenticate(`bEARER  ${accessToken}`)).toEqual(principal);
});

test("returns synchronously for a cached token, until that expires or is revoked", async () => {
  let nowMs = 0;
  const tokens = createMemoryTokens();
  using cache = openTokenCache(tokens);
  const { issue, authenticator } = open({ ...ada, tokenLifetimeSeconds: 60 }, tokens, () => nowMs, cache);
  const [expiring, revoked] = [await issue(), await issue()].map(({ accessToken }) => `Bearer ${accessToken}`);
  const principal = { username: "ada", token: expect.anything(), permissions: ["*"] };
  for (const header of [expiring, revoked] as string[]) {
    expect(await authenticator.authenticate(header)).toEqual(principal);
    expect(authenticator.authenticate(header)).toEqual(principal);
  }
  await authenticator.revokeToken(revoked?.slice("Bearer ".length) ?? "", origin);
  await expect(authenticator.authenticate(revoked ?? "")).rejects.toMatchObject({ reason: "invalid_token" });
  nowMs = 60_000;
  expect(() => authenticator.authenticate(expiring ?? "")).toThrow("The access token is unknown");
});

test("gives a token the current permissions of its user", async () => {
  const { issue, tokens } = open();
  const { accessToken } = await issue();
  const narrowed = open({ ...ada, users: ada.users.map((user) => ({ ...user, permissions: ["read"] })) }, tokens);
  expect(await narrowed.authenticator.authenticate(`Bearer ${accessToken}`)).toMatchObject({
    username: "ada",
    permissions: ["read"],
  });
  const removed = open({ ...ada, users: ada.users.filter(({ username }) => username !== "ada") }, tokens);
  await expect(removed.authenticator.authenticate(`Bearer ${accessToken}`)).rejects.toMatchObject({
    reason: "invalid_token",
  });
});

test("invalidates the tokens of a user whose password hash has changed, and no others", async () => {
  const { issue, tokens } = open();
  const [ofAda, ofBob] = [await issue(), await issue({ username: "bob", password: "bob-secret", scope: "read" })].map(
    ({ accessToken }) => `Bearer ${accessToken}`,
  );
  // The same password with a new hash.
  const rehashed = adminAuth({ ada: ["*"] });
  const changed = open({ ...ada, users: [...rehashed.users, ...ada.users.slice(1)] }, tokens);
  await expect(changed.authenticator.authenticate(ofAda ?? "")).rejects.toMatchObject({ reason: "invalid_token" });
  expect(await changed.authenticator.authenticate(ofBob ?? "")).toMatchObject({
    username: "bob",
    permissions: ["read"],
  });
  const { accessToken } = await changed.issue();
  expect(await changed.authenticator.authenticate(`Bearer ${accessToken}`)).toMatchObject({
    username: "ada",
    permissions: ["*"],
  });
});

test("gives a request without a token the default permissions, and one with an invalid token none", () => {
  const { authenticator } = open({ ...ada, default: { permissions: ["read"] } });
  expect(authenticator.authenticate(null)).toEqual({ username: undefined, permissions: ["read"] });
  expect(() => authenticator.authenticate("Bearer nonsense")).toThrow("The access token is unknown");
});

const stranger = "A".repeat(43);

test.each([
  "",
  "Bearer",
  "Bearer ",
  `Bearer ${stranger}`,
  `Bearer ${stranger}A`,
  `Bearer ${stranger}, Bearer ${stranger}`,
  `Basic ${stranger}`,
  `Bearer\t${stranger}`,
  stranger,
])("rejects the Authorization header %j", async (header) => {
  const { authenticator } = open();
  const error = await failure(Promise.try(() => authenticator.authenticate(header)));
  expect(error.reason).toBe("invalid_token");
  expect(detailsOf(error, UnauthorizedSchema)).toMatchObject([
    { challenge: 'Bearer realm="flowgate", error="invalid_token"' },
  ]);
  expect(error.challenge).toBe('Bearer realm="flowgate", error="invalid_token"');
});

test("rejects an expired token, and removes expired ones at most once an hour", async () => {
  let nowMs = 0;
  const { issue, authenticator, tokens } = open(
    { ...ada, tokenLifetimeSeconds: 60 },
    createMemoryTokens(),
    () => nowMs,
  );
  const { accessToken } = await issue();
  nowMs = 59_999;
  await authenticator.authenticate(`Bearer ${accessToken}`);
  nowMs = 60_000;
  await expect(authenticator.authenticate(`Bearer ${accessToken}`)).rejects.toMatchObject({ reason: "invalid_token" });
  await issue();
  expect(tokens.sweeps).toEqual([0]);
  nowMs = 3_600_000;
  await issue();
  expect(tokens.sweeps).toEqual([0, 3_600_000]);
  expect(tokens.all.size).toBe(1);
});

test("revokes a token, and ignores an unknown one", async () => {
  const { issue, authenticator } = open();
  const { accessToken } = await issue();
  await authenticator.revokeToken(accessToken, origin);
  await authenticator.revokeToken(accessToken, origin);
  await authenticator.revokeToken("unknown", origin);
  await expect(authenticator.authenticate(`Bearer ${accessToken}`)).rejects.toMatchObject({ reason: "invalid_token" });
  const error = await failure(authenticator.revokeToken("", origin));
  expect(detailsOf(error, TokenErrorSchema)).toMatchObject([
    { error: TokenErrorReason.INVALID_REQUEST, errorDescription: "The parameter token is missing or empty." },
  ]);
});

test("records logins in the transaction of their token, and failed ones with the user only if it exists", async () => {
  const { issue, tokens, events } = open();
  await issue();
  await failure(issue({ password: "wrong" }));
  await failure(issue({ username: "a mistyped password" }));
  await failure(issue({ username: "bob", password: "bob-secret" }));
  await failure(issue({ scope: "unknown" }));
  const [{ id } = { id: "" }] = tokens.all.values();
  expect(tokens.entries).toEqual([{ kind: "sign_in", origin: { ...origin, by: "ada" }, subject: id }]);
  expect(events).toEqual([
    { kind: "sign_in_failed", origin: { ...origin, by: "ada" }, detail: "wrong password" },
    { kind: "sign_in_failed", origin, detail: "unknown user" },
    {
      kind: "sign_in_failed",
      origin: { ...origin, by: "bob" },
      detail: "the scope exceeds the permissions of the user",
    },
  ]);
});

test("records that a user is locked out", async () => {
  const { issue, events } = open();
  for (let at = 0; at < 6; at += 1) {
    await failure(issue({ password: "wrong" }));
  }
  expect(events.map(({ detail }) => detail)).toEqual([...Array<string>(5).fill("wrong password"), "locked out"]);
  expect(events.at(-1)?.origin.by).toBe("ada");
});

test("records the revocation of a token with its id, and nothing for an unknown one", async () => {
  const { issue, authenticator, tokens } = open();
  const { accessToken } = await issue();
  const [{ id } = { id: "" }] = tokens.all.values();
  const by = { ...origin, by: "bob" };
  await authenticator.revokeToken(accessToken, by);
  await authenticator.revokeToken(accessToken, by);
  expect(tokens.entries.slice(1)).toEqual([
    { kind: "token_revoked", origin: by, subject: id, detail: "a token of ada", count: 1 },
  ]);
});

test("reports the use of a valid token only", async () => {
  const { issue, authenticator, tokens, used } = open(ada, createMemoryTokens(), () => 7000);
  const { accessToken } = await issue();
  await authenticator.authenticate(`Bearer ${accessToken}`);
  await failure(Promise.try(() => authenticator.authenticate(`Bearer ${stranger}`)));
  const [{ id } = { id: "" }] = tokens.all.values();
  expect(used).toEqual([[id, 7000]]);
});

const reader = { username: "ada", permissions: ["read"] };

test("creates a named token, with at most the permissions of the caller", async () => {
  const { authenticator, tokens } = open(ada, createMemoryTokens(), () => 5000);
  const by = { ...origin, by: "ada" };
  const created = await authenticator.createToken({ name: "a job", scope: "flows.read", expiresIn: 60 }, reader, by);
  expect(created.token).toMatchObject({ name: "a job", username: "ada", scope: "flows.read", expiresAtMs: 65_000 });
  expect([...tokens.all.values()]).toEqual([created.token]);
  expect(tokens.entries).toEqual([
    {
      kind: "token_created",
      origin: by,
      subject: created.token.id,
      detail: `"a job", scope flows.read, expires 1970-01-01T00:01:05.000Z`,
    },
  ]);
  expect(await authenticator.authenticate(`Bearer ${created.accessToken}`)).toEqual({
    username: "ada",
    token: { id: created.token.id, name: created.token.name },
    permissions: ["flows.read"],
  });
  const defaults = await authenticator.createToken({ name: "defaults" }, reader, by);
  expect(defaults.token).toMatchObject({ scope: "read", expiresAtMs: 604_805_000 });
});

test.each([
  [{ name: "" }, reader, "invalid_argument", /^name: must be 1 to 100 printable characters/],
  [{ name: "x".repeat(101) }, reader, "invalid_argument", /^name/],
  [{ name: "a\nb" }, reader, "invalid_argument", /^name/],
  [{ name: " a" }, reader, "invalid_argument", /^name/],
  [{ name: "a", expiresIn: 0 }, reader, "invalid_argument", /^expiresIn: must be a positive number/],
  [{ name: "a", scope: "flows.write" }, reader, "invalid_scope", /^scope: exceeds the permissions of the caller/],
  [{ name: "a", scope: "*" }, reader, "invalid_scope", /^scope: exceeds/],
  [
    { name: "a", scope: "" },
    reader,
    "invalid_scope",
    /^scope: must be a space-separated list, of at most 4096 characters, of: \*, read, flows.read/,
  ],
  [{ name: "a", scope: "flows" }, reader, "invalid_scope", /^scope: must be/],
  [{ name: "a" }, { username: "ada", permissions: [] }, "invalid_scope", /^scope: exceeds/],
  [{ name: "a" }, { username: undefined, permissions: ["*"] }, "user_required", /^Only a user can create tokens/],
  [
    { name: "a" },
    { username: "spiffe://example.org/a", permissions: ["*"] },
    "user_required",
    /^Only a user can create tokens/,
  ],
])("creates no named token for %j by %j: %s", async (request, caller, reason, message) => {
  const { authenticator, tokens } = open();
  const error = await failure(authenticator.createToken(request, caller, origin));
  expect([error.reason, error.message]).toEqual([reason, expect.stringMatching(message)]);
  expect(tokens.entries).toEqual([]);
});

test("creates no named token without adminAuth", async () => {
  const { authenticator } = open("off");
  const error = await failure(authenticator.createToken({ name: "a" }, reader, origin));
  expect([error.reason, error.message]).toEqual([
    "auth_disabled",
    "This service issues no tokens: its adminAuth is not set.",
  ]);
});

test("replaced users apply to later calls, and unchanged ones keep their tokens", async () => {
  const tokens = createMemoryTokens();
  using cache = openTokenCache(tokens);
  const { issue, authenticator } = open(ada, tokens, Date.now, cache);
  const logins = [
    await issue(),
    await issue({ username: "bob", password: "bob-secret", scope: "read" }),
    await issue({ username: "eve", password: "eve-secret", scope: "flows.write" }),
  ];
  const [adas, bobs, eves] = logins.map(({ accessToken }) => `Bearer ${accessToken}`) as [string, string, string];
  for (const header of [adas, bobs, eves]) {
    await authenticator.authenticate(header);
  }
  const [a, b] = ada.users;
  const { users: added } = adminAuth({ zoe: ["read"] });
  authenticator.replaceAdminAuth({
    ...ada,
    users: [{ ...(a as (typeof added)[number]), permissions: ["read"] }, b as (typeof added)[number], ...added],
  });
  expect(authenticator.authenticate(adas)).toMatchObject({ username: "ada", permissions: ["read"] });
  expect(authenticator.authenticate(bobs)).toMatchObject({ username: "bob", permissions: ["read"] });
  expect(() => authenticator.authenticate(eves)).toThrow("The access token is unknown");
  expect([...tokens.all.values()].map((token) => authenticator.isValid(token))).toEqual([true, true, false]);
  expect((await failure(issue({ username: "eve", password: "eve-secret" }))).reason).toBe("invalid_grant");
  await issue({ username: "zoe", password: "zoe-secret", scope: "read" });
  authenticator.replaceAdminAuth(ada);
  expect(authenticator.authenticate(eves)).toMatchObject({ username: "eve", permissions: ["flows.write"] });
});

test("failed logins stay counted when users are replaced", async () => {
  const { issue, authenticator } = open();
  for (let at = 0; at < 5; at += 1) {
    await failure(issue({ password: "wrong" }));
    authenticator.replaceAdminAuth(ada);
  }
  expect((await failure(issue())).reason).toBe("temporarily_unavailable");
});
