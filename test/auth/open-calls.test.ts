import { setImmediate } from "node:timers/promises";
import { createContextValues } from "@connectrpc/connect";
import { expect, test } from "vitest";
import type { AdminAuth } from "../../src/auth/accounts.ts";
import { Authenticator } from "../../src/auth/authenticator.ts";
import { type Principal, peerKey, principalKey } from "../../src/auth/caller.ts";
import { createLimiter } from "../../src/auth/limiter.ts";
import { OpenCalls } from "../../src/auth/open-calls.ts";
import { FlowgateError } from "@flowgate/flows/errors";
import { createMemoryAttempts } from "../../src/store/login-attempts.ts";
import { collectEvents, origin } from "./collect-events.ts";
import { createMemoryTokens } from "./memory-tokens.ts";
import { adminAuth, known } from "./users.ts";

const users = adminAuth({ ada: ["*"], bob: ["flows.read"] });

function start(configured: AdminAuth | undefined = users, tokens = createMemoryTokens(), now = Date.now) {
  const { audit, uses } = collectEvents();
  const limiter = createLimiter(createMemoryAttempts());
  const authenticator = new Authenticator({ adminAuth: configured, tokens, uses, audit, permissions: known, limiter });
  const calls = new OpenCalls({ authenticator, tokens, now });
  const issue = async (username: string): Promise<string> => {
    const request = { clientId: "service-admin", grantType: "password", scope: "flows.read", username };
    const peer = { origin, authorization: null };
    const { accessToken } = await authenticator.issueToken({ ...request, password: `${username}-secret` }, peer);
    return accessToken;
  };
  /** Resolves with the reason when the call is ended. */
  const open = (authorization: string | null, username?: string, permissions = ["flows.read"]) => {
    const ended = Promise.withResolvers<string>();
    const values = createContextValues()
      .set(peerKey, { address: "127.0.0.1", requestId: "1", authorization })
      .set(principalKey, { username, permissions: [] } satisfies Principal);
    const subscription = calls.add(
      { values, requestHeader: new Headers() },
      { permissions, end: (error: FlowgateError) => ended.resolve(error.reason) },
    );
    return { ended: ended.promise, [Symbol.dispose]: () => subscription[Symbol.dispose]() };
  };
  return { tokens, authenticator, calls, issue, open };
}

test("a call ends when its token is revoked, and no other call", async () => {
  const { calls, authenticator, issue, open } = start();
  using _ = calls;
  const [revoked, kept] = [await issue("ada"), await issue("ada")];
  using other = open(`Bearer ${kept}`, "ada");
  using call = open(`Bearer ${revoked}`, "ada");
  await authenticator.revokeToken(revoked, origin);
  expect(await call.ended).toBe("invalid_token");
  await authenticator.revokeToken(kept, origin);
  expect(await other.ended).toBe("invalid_token");
});

test("calls end when the user is removed, or loses the permission", async () => {
  const { calls, authenticator, issue, open } = start();
  using _ = calls;
  using removed = open(`Bearer ${await issue("bob")}`, "bob");
  using narrowed = open(`Bearer ${await issue("ada")}`, "ada");
  const ada = { ...users.users[0], permissions: ["flows.write"] } as AdminAuth["users"][number];
  authenticator.replaceAdminAuth({ ...users, users: [ada] });
  expect(await removed.ended).toBe("invalid_token");
  expect(await narrowed.ended).toBe("insufficient_scope");
});

test("calls without a token end when they lose the permission by default, those of workloads do not", async () => {
  const { calls, authenticator, open } = start({ ...users, default: { permissions: ["read"] } });
  using _ = calls;
  using workload = open(null, "spiffe://example.org/ns/prod/sa/deployer");
  using anonymous = open(null);
  authenticator.replaceAdminAuth({ ...users, default: { permissions: [] } });
  expect(await anonymous.ended).toBe("insufficient_scope");
  expect(await Promise.race([workload.ended, Promise.resolve("open")])).toBe("open");
});

test("a call that has ended is not checked any more", async () => {
  const { calls, authenticator, issue, open } = start();
  using _ = calls;
  const token = await issue("ada");
  const closed = open(`Bearer ${token}`, "ada");
  closed[Symbol.dispose]();
  using call = open(`Bearer ${token}`, "ada");
  await authenticator.revokeToken(token, origin);
  expect(await call.ended).toBe("invalid_token");
  expect(await Promise.race([closed.ended, Promise.resolve("open")])).toBe("open");
});

test("calls whose tokens can't be checked end after ten minutes", async () => {
  const clock = { aheadMs: 0 };
  const tokens = createMemoryTokens();
  let checked = Promise.withResolvers<void>();
  let isDown = false;
  const failing: typeof tokens = {
    ...tokens,
    async find(hash) {
      if (!isDown) {
        return tokens.find(hash);
      }
      checked.resolve();
      throw new FlowgateError("unavailable", "the database does not respond");
    },
  };
  const now = () => Date.now() + clock.aheadMs;
  const { calls, authenticator, issue, open } = start(users, failing, now);
  using _ = calls;
  using call = open(`Bearer ${await issue("ada")}`, "ada");
  isDown = true;
  const check = async () => {
    checked = Promise.withResolvers();
    authenticator.replaceAdminAuth(users);
    await checked.promise;
    await setImmediate();
    return Promise.race([call.ended, Promise.resolve("open")]);
  };
  expect(await check()).toBe("open");
  clock.aheadMs = 10 * 60_000 - 1_000;
  expect(await check()).toBe("open");
  clock.aheadMs += 2_000;
  expect(await check()).toBe("unavailable");
});
