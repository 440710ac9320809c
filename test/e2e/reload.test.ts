import { afterAll, beforeAll, expect, test } from "vitest";
import { deploy } from "./deploy.ts";
import { endpoint } from "./flow-builders.ts";
import { bearer, json } from "./rest.ts";
import { eventually, type Service, startService } from "./service.ts";
import { login, user } from "./users.ts";

const [admin, editor, leaving] = [user("admin", "*"), user("editor", "*"), user("leaving", "*")];

const changed = { adminAuth: { users: [admin, { ...editor, permissions: "read" }, user("joining", "read")] } };

let service: Service;

beforeAll(async () => {
  service = await startService({ config: { adminAuth: { users: [admin, editor, leaving] } } });
});
afterAll(() => service?.[Symbol.asyncDispose]());

/** The status of reading or deploying flows with this token. */
async function statusWith(method: "GET" | "POST", token: string): Promise<number> {
  const body = method === "GET" ? {} : { body: "[]" };
  return (await service.send(method, "/flows", { headers: { ...bearer(token), ...json }, ...body })).status;
}

const entriesOf = async (kind: string, token: string) =>
  (
    (await service.send("GET", `/audit?kind=${kind}`, { headers: bearer(token) })).json() as {
      entries: { detail: string }[];
    }
  ).entries;

test("a replaced file takes effect at the next request, without touching flows and unchanged users", async () => {
  const [adminToken, editorToken, leavingToken] = [
    await login(service, {}),
    await login(service, { username: "editor" }),
    await login(service, { username: "leaving" }),
  ];
  await deploy(
    service,
    { flows: endpoint("/hello", `msg.payload = process.pid.toString()`) },
    "full",
    bearer(adminToken),
  );
  const runtimePids = await service.childPids();
  for (const token of [adminToken, editorToken, leavingToken]) {
    expect(await statusWith("GET", token)).toBe(200);
  }
  await service.replaceConfig(changed);
  await service.untilLogged(/"difference":"added: joining; removed: leaving; changed: editor".*in force/);
  expect(await statusWith("GET", leavingToken)).toBe(401);
  expect(await statusWith("GET", editorToken)).toBe(200);
  expect(await statusWith("POST", editorToken)).toBe(401);
  expect(await statusWith("GET", adminToken)).toBe(200);
  await login(service, { username: "joining", scope: "read" });
  await expect(login(service, { username: "leaving" })).rejects.toThrow("invalid_grant");
  expect(await service.childPids()).toEqual(runtimePids);
  // Entries are written after the change.
  await eventually(async () =>
    expect(await entriesOf("users_reloaded", adminToken)).toMatchObject([
      { detail: "added: joining; removed: leaving; changed: editor" },
    ]),
  );
});

test("a wrong file is refused with its line, and the previous users stay in force", async () => {
  const token = await login(service, {});
  await service.replaceConfig(
    "adminAuth:\n  users:\n    - username: eve\n      password: plain text\n      permissions: '*'\n",
  );
  await service.untilLogged(/"reason":"\S+flowgate\.yaml:4: adminAuth\.users\[0\]\.password: must be .*can't be used/);
  expect(await statusWith("GET", token)).toBe(200);
  await eventually(async () =>
    expect(await entriesOf("users_rejected", token)).toMatchObject([
      {
        detail: expect.stringMatching(
          /^adminAuth\.users\[0\]\.password: must be an argon2id or bcrypt hash/,
        ) as unknown,
      },
    ]),
  );
  expect(service.log()).not.toContain("plain text");
  await service.replaceConfig(changed);
  await service.untilLogged(/"msg":"the configuration was read again: the users in force are unchanged"/);
});

test("SIGHUP reads the file at once, and names other changed options", async () => {
  const before = service.log().length;
  await service.replaceConfig({ adminAuth: { users: [admin] }, limits: { inFlight: 7 } });
  process.kill(service.pid, "SIGHUP");
  await service.untilLogged(/"options":\["limits\.inFlight"\].*restart the service/);
  await service.untilLogged(/"difference":"removed: editor, joining"/);
  expect(service.log().slice(before)).not.toContain('"level":"error"');
});

test("default permissions can be granted and withdrawn, with the protection against web pages", async () => {
  const host = { host: "evil.example" };
  const anonymous = (headers: Record<string, string> = {}) => service.send("GET", "/settings", { headers });
  expect([(await anonymous()).status, (await anonymous(host)).status]).toEqual([401, 401]);
  await service.replaceConfig({ adminAuth: { users: [admin], default: { permissions: "read" } } });
  await service.untilLogged(/"difference":"changed: default"/);
  expect([(await anonymous()).status, (await anonymous(host)).status]).toEqual([200, 421]);
});
