import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { runCommand } from "../cli/run-command.ts";
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
    const { stdout } = await runCommand(["hash-password"], { input: `${password}\n` });
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
      Array.from({ length: 4 }, () => login(service, { username: "argon2id", password })),
    );
    over.abort();
    await asking;
    expect(new Set(tokens).size).toBe(4);
    // With hashing on the event loop, only one or two of these would complete meanwhile, instead of one per hash.
    expect(answered).toBeGreaterThan(4);
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

test("adminAuth.default applies only to requests without a token, and clientIds and tokenLifetimeSeconds to logins", async () => {
  await using service = await startService({
    config: {
      ...withoutRuntime,
      adminAuth: {
        users: [user("u", "flows.write")],
        default: { permissions: "read" },
        clientIds: ["only-this"],
        tokenLifetimeSeconds: 7,
      },
    },
  });
  expect(await allowed(service)).toEqual(["flows.read", "settings.read"]);
  expect(await allowed(service, "x".repeat(43))).toEqual([]);
  const issue = (client_id: string) =>
    service.send("POST", "/auth/token", {
      headers: json,
      body: JSON.stringify(tokenParameters({ username: "u", scope: "flows.write", client_id })),
    });
  expect((await issue("service-admin")).status).toBe(401);
  const issued = (await issue("only-this")).json() as { access_token: string };
  expect(issued).toMatchObject({ expires_in: 7 });
  expect(await allowed(service, issued.access_token)).toEqual(["flows.write"]);
  const write = await service.send("POST", "/flows", { headers: json, body: "[]" });
  expect([write.status, write.body, write.headers["www-authenticate"]]).toEqual([401, "", 'Bearer realm="flowgate"']);
  const revoke = await service.send("POST", "/auth/revoke", { headers: form, body: "token=x" });
  expect([revoke.status, revoke.headers["www-authenticate"]]).toEqual([401, 'Bearer realm="flowgate"']);
});
