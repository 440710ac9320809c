import { pino } from "pino";
import { expect, test } from "vitest";
import type { AdminAuth } from "../../src/auth/accounts.ts";
import { type OptionsInput, parseOptions } from "../../src/options/parse.ts";
import { createUserReload } from "../../src/app/reload-users.ts";
import { collectEvents } from "../auth/collect-events.ts";
import { user } from "../e2e/users.ts";

const [ada, bob, eve] = [user("ada", "*"), user("bob", "read"), user("eve", "read")];

function start(input: OptionsInput) {
  const { audit, events } = collectEvents();
  const lines: { msg: string; level: number; options?: string[]; reason?: string }[] = [];
  const replaced: AdminAuth[] = [];
  const secrets: (string | undefined)[] = [];
  const reloads: [action: string, detail: string][] = [];
  const reload = createUserReload({
    options: parseOptions(input),
    async replace(adminAuth) {
      if (adminAuth.issuers.length > 0) {
        throw new Error("jwksFile of local can't be used: ENOENT");
      }
      replaced.push(adminAuth);
    },
    async replaceSecrets({ credentialSecret, previousCredentialSecrets }) {
      if (credentialSecret === "unknown") {
        throw new Error("previousCredentialSecrets: must contain the one before");
      }
      secrets.push(credentialSecret, ...previousCredentialSecrets);
    },
    audit,
    onReload: (...reload) => void reloads.push(reload),
    log: pino({}, { write: (line: string) => void lines.push(JSON.parse(line) as (typeof lines)[number]) }),
  });
  const read = (next: OptionsInput) => reload.reload(async () => parseOptions(next));
  return { reload, read, events, lines, replaced, reloads, secrets };
}

test("replaces changed users, and records which", async () => {
  const { reload, read, events, lines, replaced, reloads } = start({ adminAuth: { users: [ada, bob] } });
  await read({ adminAuth: { users: [{ ...ada, permissions: "read" }, eve], default: { permissions: "read" } } });
  expect(replaced).toEqual([reload.adminAuth()]);
  expect(reload.adminAuth()).toMatchObject({
    users: [{ username: "ada", permissions: ["read"] }, { username: "eve" }],
    default: { permissions: ["read"] },
  });
  expect(events).toMatchObject([{ kind: "users_reloaded", detail: "added: eve; removed: bob; changed: ada, default" }]);
  expect(reloads).toEqual([["reloaded", "added: eve; removed: bob; changed: ada, default"]]);
  expect(lines).toMatchObject([{ msg: "changed users are in force", level: 30 }]);
  expect(JSON.stringify([events, lines])).not.toContain(ada.password);
});

test("changes nothing if the users are the same, or the options can't be read", async () => {
  const { reload, read, events, lines, replaced, reloads } = start({ adminAuth: { users: [ada] } });
  await read({ adminAuth: { users: [ada] } });
  expect([events, lines.map(({ msg }) => msg)]).toEqual([
    [],
    ["the configuration was read again: the users in force are unchanged"],
  ]);
  const reason = "/etc/flowgate.yaml:3: duplicate key";
  await reload.reload(async () => {
    throw new Error(reason);
  });
  expect(lines.at(-1)).toMatchObject({ level: 50, reason });
  await read({ limits: { inFlight: -1 } });
  expect(events).toMatchObject([
    { kind: "users_rejected", detail: "the configuration can't be read: the log has the reason" },
    { kind: "users_rejected", detail: "limits.inFlight: must be a whole number from 0 to 1000000" },
  ]);
  expect(reloads).toEqual(events.map(({ detail }) => ["rejected", detail]));
  expect(replaced).toEqual([]);
});

test("keeps the previous users if the issuers can't be used", async () => {
  const { reload, read, events, lines, replaced } = start({ adminAuth: { users: [ada] } });
  const issuer = {
    name: "local",
    issuer: "https://issuer.example",
    audience: "https://flows.example",
    jwksFile: "/nowhere/keys.json",
    rules: [{ claims: { sub: "x" }, permissions: "read" }],
  };
  await read({ adminAuth: { users: [bob], issuers: [issuer] } });
  expect(lines).toMatchObject([{ level: 50, reason: "jwksFile of local can't be used: ENOENT" }]);
  expect(events).toMatchObject([{ kind: "users_rejected" }]);
  await read({ adminAuth: { users: [bob] } });
  expect(events.at(-1)).toMatchObject({ kind: "users_reloaded", detail: "added: bob; removed: ada" });
  expect(replaced).toEqual([reload.adminAuth()]);
});

test("changed roles are in force too", async () => {
  const cy = user("cy", "release-manager");
  const { read, events, lines, replaced } = start({
    roles: { "release-manager": "deployer" },
    adminAuth: { users: [cy] },
  });
  await read({ roles: { "release-manager": "viewer", other: "*" }, adminAuth: { users: [cy] } });
  expect(replaced).toMatchObject([{ users: [{ username: "cy", permissions: ["read"] }] }]);
  expect(events).toMatchObject([{ kind: "users_reloaded", detail: "changed: cy, roles.release-manager, roles.other" }]);
  expect(lines.map(({ msg }) => msg)).toEqual(["changed users are in force"]);
});

test("names other changed options, and adminAuth if it is added or removed", async () => {
  const { read, lines, replaced } = start({ adminAuth: { users: [ada] }, limits: { inFlight: 5 } });
  await read({ adminAuth: { users: [bob] }, limits: { inFlight: 6 }, hosts: ["flows.example"] });
  expect(lines[0]?.options).toEqual(["hosts", "limits.inFlight"]);
  await read({ limits: { inFlight: 5 } });
  expect(lines.at(-2)?.options).toEqual(["adminAuth", "reflection"]);
  expect(replaced).toHaveLength(1);

  const open = start({});
  await open.read({ adminAuth: { users: [ada] } });
  expect(open.lines[0]?.options).toEqual(["reflection", "adminAuth"]);
  expect(open.replaced).toEqual([]);
});

test("applies concurrent reloads in order", async () => {
  const { reload, read } = start({ adminAuth: { users: [ada] } });
  const slow = Promise.withResolvers<OptionsInput>();
  const first = reload.reload(async () => parseOptions(await slow.promise));
  const second = read({ adminAuth: { users: [eve] } });
  slow.resolve({ adminAuth: { users: [bob] } });
  await Promise.all([first, second]);
  expect(reload.adminAuth()?.users.map(({ username }) => username)).toEqual(["eve"]);
});

test("replaces changed secrets of credentials, also without users, and keeps the previous ones if that fails", async () => {
  const { reload, read, lines, secrets } = start({ credentialSecret: "old" });
  await read({ credentialSecret: "old" });
  expect(secrets).toEqual([]);
  await read({ credentialSecret: "new", previousCredentialSecrets: ["old"] });
  expect(secrets).toEqual(["new", "old"]);
  expect(reload.secrets()).toEqual({ credentialSecret: "new", previousCredentialSecrets: ["old"] });
  await read({ credentialSecret: "unknown" });
  expect(reload.secrets()).toEqual({ credentialSecret: "new", previousCredentialSecrets: ["old"] });
  expect(lines.map(({ level, msg, reason }) => [level, msg, ...(reason === undefined ? [] : [reason])])).toEqual([
    [30, "the configuration was read again: the users in force are unchanged"],
    [
      30,
      "changed secrets of credentials are in force: flowgate credentials rotate encrypts everything with the new one",
    ],
    [30, "the configuration was read again: the users in force are unchanged"],
    [
      50,
      "the changed configuration can't be used: the previous users stay in force",
      "previousCredentialSecrets: must contain the one before",
    ],
  ]);
});
