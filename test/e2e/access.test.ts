import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { runCli } from "../cli/run-cli.ts";
import { bearer, form, json } from "./rest.ts";
import { type Service, startService, withoutRuntime } from "./service.ts";
import { login, passwordOf, tokenParameters, user } from "./users.ts";

/** The calls that the API allows with this token. */
async function allowed(service: Service, token?: string): Promise<string[]> {
  const headers = token === undefined ? {} : bearer(token);
  const calls = {
    "flows.read": () => service.send("GET", "/flows", { headers }),
    "flows.write": () => service.send("POST", "/flows", { headers: { ...headers, ...json }, body: "[]" }),
    "settings.read": () => service.send("GET", "/settings", { headers }),
  };
  const statuses = await Promise.all(
    Object.entries(calls).map(async ([permission, call]) => [permission, (await call()).status] as const),
  );
  return statuses.filter(([, status]) => status < 300).map(([permission]) => permission);
}

const cases = [
  ["*", "*", ["flows.read", "flows.write", "settings.read"]],
  ["*", "read", ["flows.read", "settings.read"]],
  ["*", "flows.write", ["flows.write"]],
  ["read", "read", ["flows.read", "settings.read"]],
  ["read", "settings.read", ["settings.read"]],
  [["flows.write", "read"], "read flows.write", ["flows.read", "flows.write", "settings.read"]],
] as const;

describe("with users", () => {
  const password = "correct horse, battery stäple";
  let service: Service;
  beforeAll(async () => {
    const { stdout } = await runCli(["hash-password"], { input: `${password}\n` });
    const users = [
      ...cases.map(([permissions], index) => user(`u${index}`, permissions as string | string[])),
      { username: "argon2id", permissions: "*", password: stdout.trim() },
    ];
    service = await startService({ config: { ...withoutRuntime, adminAuth: { users } } });
  });
  afterAll(() => service?.[Symbol.asyncDispose]());

  test("a token has the permissions of both its scope and its user", async () => {
    for (const [index, [permissions, scope, expected]] of cases.entries()) {
      const token = await login(service, { username: `u${index}`, scope });
      expect([permissions, scope, await allowed(service, token)]).toEqual([permissions, scope, expected]);
    }
  });

  test("hashes of `flowgate hash-password` are accepted, without blocking other calls", async () => {
    let answered = 0;
    const over = new AbortController();
    const asking = (async () => {
      while (!over.signal.aborted) {
        await service.send("GET", "/auth/login");
        answered += 1;
      }
    })();
    const tokens = await Promise.all(
      Array.from({ length: 16 }, () => login(service, { username: "argon2id", password })),
    );
    over.abort();
    await asking;
    expect(new Set(tokens).size).toBe(16);
    // With hashing on the event loop, only one or two of these would complete meanwhile, instead of one per hash.
    expect(answered).toBeGreaterThan(16);
  });

  // The last one: nobody can log in afterwards.
  test("after 50 failures an address is blocked, whatever the user", async () => {
    const issue = (username: string, secret: string) =>
      service.send("POST", "/auth/token", {
        headers: { ...form, "x-forwarded-for": `10.0.0.${username.length}` },
        body: new URLSearchParams(tokenParameters({ username, password: secret })).toString(),
      });
    const statuses = await Promise.all(
      Array.from({ length: 60 }, async (_, n) => (await issue(`nobody ${n}`, "x")).status),
    );
    expect(statuses.filter((status) => status === 400)).toHaveLength(50);
    expect(statuses.filter((status) => status === 429)).toHaveLength(10);
    const reply = await issue("u0", passwordOf("u0"));
    expect([reply.status, Number(reply.headers["retry-after"]) > 0]).toEqual([429, true]);
  });
});

test("a token loses the permissions that its user loses, and all with the user or the password", async () => {
  const config = (...users: ReturnType<typeof user>[]) => ({ ...withoutRuntime, adminAuth: { users } });
  const [narrowed, changed, removed] = [user("narrowed", "*"), user("changed", "*"), user("removed", "*")];
  await using first = await startService({ config: config(narrowed, changed, removed) });
  const tokens = await Promise.all([narrowed, changed, removed].map(({ username }) => login(first, { username })));
  const everything = ["flows.read", "flows.write", "settings.read"];
  expect(await Promise.all(tokens.map((token) => allowed(first, token)))).toEqual([everything, everything, everything]);
  await first.stop();
  await using second = await startService({
    dataDir: first.dataDir,
    config: config({ ...narrowed, permissions: "read" }, user("changed", "*", "another password")),
  });
  expect(await Promise.all(tokens.map((token) => allowed(second, token)))).toEqual([
    ["flows.read", "settings.read"],
    [],
    [],
  ]);
  const reply = await second.send("GET", "/flows", { headers: bearer(tokens[2] ?? "") });
  expect(reply.headers["www-authenticate"]).toContain("invalid_token");
});

test("adminAuth.default applies only to requests without a token", async () => {
  await using service = await startService({
    config: { ...withoutRuntime, adminAuth: { users: [user("u", "flows.write")], default: { permissions: "read" } } },
  });
  expect(await allowed(service)).toEqual(["flows.read", "settings.read"]);
  expect(await allowed(service, "x".repeat(43))).toEqual([]);
  expect(await allowed(service, await login(service, { username: "u", scope: "flows.write" }))).toEqual([
    "flows.write",
  ]);
  const write = await service.send("POST", "/flows", { headers: json, body: "[]" });
  expect([write.status, write.body, write.headers["www-authenticate"]]).toEqual([401, "", 'Bearer realm="flowgate"']);
  const revoke = await service.send("POST", "/auth/revoke", { headers: form, body: "token=x" });
  expect([revoke.status, revoke.headers["www-authenticate"]]).toEqual([401, 'Bearer realm="flowgate"']);
});

test("clientIds and tokenLifetimeSeconds are applied", async () => {
  await using service = await startService({
    config: {
      ...withoutRuntime,
      adminAuth: { users: [user("u", "*")], clientIds: ["only-this"], tokenLifetimeSeconds: 7 },
    },
  });
  const issue = (client_id: string) =>
    service.send("POST", "/auth/token", {
      headers: json,
      body: JSON.stringify(tokenParameters({ username: "u", client_id })),
    });
  expect((await issue("only-this")).json()).toMatchObject({ expires_in: 7 });
  expect((await issue("service-admin")).status).toBe(401);
});

test.each([
  ["without adminAuth, an address that is not loopback", ["--host", "0.0.0.0"], /adminAuth/],
  ["an invalid port", ["--port", "99999"], /--port/],
])("does not start with %s", async (_name, args, why) => {
  const { code, stdout, stderr } = await runCli(["--data-dir", "/nonexistent/flowgate", ...args]);
  expect([code, stdout]).toEqual([1, ""]);
  expect(stderr).toMatch(why);
});
