import { randomBytes } from "node:crypto";
import { access } from "node:fs/promises";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import pino from "pino";
import { expect, test } from "vitest";
import type { FlowNode } from "@flowgate/flows";
import { type FlowgateOptions, openFlowgate } from "../../src/app/flowgate.ts";
import { OptionsError, type OptionsInput, parseOptions } from "../../src/options/parse.ts";
import { openSqliteStore } from "../../src/store/sqlite/open-store.ts";
import type { Store } from "../../src/store/store.ts";
import { endpoint } from "../e2e/flow-builders.ts";
import { eventually } from "../e2e/service.ts";
import { tokenParameters, user } from "../e2e/users.ts";
import { documentOf } from "../../packages/flows/test/builders.ts";
import { createFolder, draft } from "../store/builders.ts";

const withRuntime = { runtime: { port: 0 } } satisfies OptionsInput;

/** Without a flow runtime by default, whose start takes a second of CPU. */
function optionsOf(dataDir: string, input: OptionsInput = {}, store?: Store): FlowgateOptions {
  const options = parseOptions({ port: 0, dataDir, runtime: { mode: "none" }, log: { level: "silent" }, ...input });
  return store === undefined ? options : { ...options, store };
}

const flows = endpoint("/hello", `msg.payload = "hello"`);

test("serves and runs flows that another process commits to its store, which stays open afterwards", async () => {
  await using folder = await createFolder();
  const database = { path: join(folder.path, "elsewhere.db"), key: randomBytes(32) };
  await using store = await openSqliteStore(database);
  await using other = await openSqliteStore(database);
  {
    await using gateway = await openFlowgate(optionsOf(folder.path, withRuntime, store));
    await eventually(async () => expect((await fetch(`${gateway.url}/readyz`)).status).toBe(200));
    const { rev } = await other.flows.commit(
      draft(other.flows.active().rev, { flows: documentOf(flows as readonly FlowNode[]) }),
    );
    // This store detects the commit when it reads; one for several processes would be notified.
    await store.flows.reload();
    const response = await fetch(`${gateway.url}/flows`);
    expect([response.headers.get("etag"), await response.json()]).toEqual([`"${rev}"`, flows]);
    await eventually(async () => {
      const { runtime } = (await (await fetch(`${gateway.url}/settings`)).json()) as { runtime: { httpPort: number } };
      expect(await (await fetch(`http://127.0.0.1:${runtime.httpPort}/hello`)).text()).toBe("hello");
    });
  }
  expect(store.health()).toEqual({ isUsable: true });
  await store.flows.commit(draft(store.flows.active().rev));
});

test.each([
  ["the folder of flows", "runtime", {}],
  ["a folder in it", "runtime/socket", {}],
  ["a folder that flows may write to", "socket", { allow: { fileSystemWrite: ["."] } }],
])(
  "does not start if the socket of the database is in %s",
  async (_, name, { allow }: OptionsInput["runtime"] & {}) => {
    await using folder = await createFolder();
    await using store = await openSqliteStore({ path: join(folder.path, "elsewhere.db"), key: randomBytes(32) });
    const socketFolder = join(folder.path, name);
    const fileSystemWrite = allow?.fileSystemWrite?.map((path) => join(folder.path, path)) ?? [];
    const options = optionsOf(
      folder.path,
      { runtime: { port: 0, allow: { fileSystemWrite } } },
      { ...store, endpoints: [{ socketFolder }] },
    );
    await expect(openFlowgate(options)).rejects.toThrow(
      "store: flows can write to the folder of the database's Unix socket",
    );
  },
);

test("keeps the flows from its own ports", async () => {
  await using folder = await createFolder();
  await using gateway = await openFlowgate(optionsOf(folder.path, { ...withRuntime, metrics: { port: 0 } }));
  const ports = [gateway.url, gateway.metricsUrl].map((url) => new URL(url ?? "").port);
  const code = `const net = util.inspect.constructor("return process")().getBuiltinModule("net");
    const codeOf = (port) => new Promise((resolve) => {
      net.connect(port, "127.0.0.1").once("error", ({ code }) => resolve(code)).once("connect", () => resolve("connected"));
    });
    Promise.all([${ports.join()}].map(codeOf)).then((payload) => node.send({ ...msg, payload }));
    return null`;
  await eventually(async () => expect(gateway.runtimeStatus().state).toBe("running"));
  const deployed = await fetch(`${gateway.url}/flows`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(endpoint("/ports", code)),
  });
  expect(deployed.status).toBe(204);
  const response = await fetch(`http://127.0.0.1:${gateway.runtimeStatus().httpPort}/ports`);
  expect(await response.json()).toEqual(["EACCES", "EACCES"]);
});

test("runs the flows in mode one if no other replica can use its store", async () => {
  await using folder = await createFolder();
  await using gateway = await openFlowgate(optionsOf(folder.path, { runtime: { port: 0, mode: "one" } }));
  await eventually(async () => expect(gateway.runtimeStatus().state).toBe("running"));
  expect(await (await fetch(`${gateway.url}/settings`)).json()).not.toHaveProperty("replicas");
});

test("looks a token up in the store once, and rejects it when it is revoked", async () => {
  await using folder = await createFolder();
  await using opened = await openSqliteStore({ path: join(folder.path, "elsewhere.db"), key: randomBytes(32) });
  let lookups = 0;
  const store: Store = {
    ...opened,
    tokens: {
      ...opened.tokens,
      find(hash) {
        lookups += 1;
        return opened.tokens.find(hash);
      },
    },
  };
  const adminAuth = { users: [user("admin", "*")] };
  await using gateway = await openFlowgate(optionsOf(folder.path, { adminAuth }, store));
  const login = await fetch(`${gateway.url}/auth/token`, {
    method: "POST",
    body: new URLSearchParams(tokenParameters()),
  });
  const { access_token: token } = (await login.json()) as { access_token: string };
  const headers = { authorization: `Bearer ${token}` };
  for (let count = 0; count < 5; count++) {
    expect((await fetch(`${gateway.url}/settings`, { headers })).status).toBe(200);
  }
  expect(lookups).toBe(1);
  const revoked = await fetch(`${gateway.url}/auth/revoke`, {
    method: "POST",
    headers,
    body: new URLSearchParams({ token }),
  });
  expect(revoked.status).toBe(200);
  expect((await fetch(`${gateway.url}/settings`, { headers })).status).toBe(401);
});

test("is not ready while its store fails, and reports and logs why", async () => {
  await using folder = await createFolder();
  const lines: { readonly level: number; readonly msg: string }[] = [];
  const log = pino({ level: "info" }, { write: (line: string) => void lines.push(JSON.parse(line)) });
  await using gateway = await openFlowgate(optionsOf(folder.path, withRuntime), log);
  const readiness = async () => {
    const response = await fetch(`${gateway.url}/readyz`);
    return [response.status, await response.json()];
  };
  await eventually(async () => expect(await readiness()).toEqual([200, { status: "ready" }]));
  const execute = (sql: string): void => {
    using db = new DatabaseSync(join(folder.path, "flowgate.db"), { timeout: 5_000 });
    db.exec(sql);
  };
  execute("ALTER TABLE revision RENAME TO gone");
  const deployed = await fetch(`${gateway.url}/flows`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: "[]",
  });
  expect(deployed.status).toBe(500);
  expect(await readiness()).toEqual([
    503,
    { status: "not ready", store: "the database can't be used (SQLite's error 1)", runtime: "running" },
  ]);
  execute("ALTER TABLE gone RENAME TO revision");
  await eventually(async () => expect(await readiness()).toEqual([200, { status: "ready" }]));
  expect(lines.filter(({ msg }) => msg.startsWith("the store"))).toMatchObject([
    { level: 50, msg: "the store has failed: the database can't be used (SQLite's error 1)" },
    { level: 30, msg: "the store can be used again" },
  ]);
});

test("accepts partial options, and fills in the defaults", async () => {
  await using folder = await createFolder();
  await using gateway = await openFlowgate({
    port: 0,
    dataDir: folder.path,
    runtime: { mode: "none" },
    log: { level: "silent" },
  });
  expect(await (await fetch(`${gateway.url}/auth/login`)).json()).toEqual({});
});

test.each<[unknown, string]>([
  [{ porrt: 8080 }, "porrt: unknown key"],
  [{ port: "8080", log: { levle: "info" } }, "port: must be a whole number from 0 to 65535\nlog.levle: unknown key"],
  [{ store: {} }, "store: must be text"],
  [{ store: null }, "store: must be text"],
  [{ runtime: null }, "runtime: must be keys and values"],
  [null, "options: must be keys and values"],
  ["sqlite:flows.db", "options: must be keys and values"],
])("refuses the options %j, naming what is wrong", async (options, message) => {
  const refused = await openFlowgate(options as FlowgateOptions).catch((error: unknown) => error);
  expect(refused).toBeInstanceOf(OptionsError);
  expect(refused).toMatchObject({ message });
});

test("rejects an unknown kind of store, without repeating the URL", async () => {
  await using folder = await createFolder();
  await expect(openFlowgate(optionsOf(folder.path, { store: "mystery://ada:secret@host" }))).rejects.toThrow(
    /^store: must be a URL that begins with sqlite: or postgres:$/,
  );
});

test("opens its store at the URL exclusively", async () => {
  await using folder = await createFolder();
  const elsewhere = join(folder.path, "elsewhere");
  const store = `sqlite:${join(elsewhere, "flows.db")}`;
  const [one, two] = [join(folder.path, "one"), join(folder.path, "two")];
  {
    await using _ = await openFlowgate(optionsOf(one, { store }));
    await access(join(elsewhere, "flows.db"));
    await expect(access(join(one, "flowgate.db"))).rejects.toThrow("ENOENT");
    await expect(openFlowgate(optionsOf(two, { store, credentialSecret: "any" }))).rejects.toThrow(
      `another Flowgate runs on the data directory ${elsewhere}`,
    );
  }
  // The lock is released, and the failed start has left no lock.
  await using _ = await openFlowgate(optionsOf(one, { store }));
});

test("replaces its users by those of valid options, and keeps them otherwise", async () => {
  await using folder = await createFolder();
  const [admin, editor] = [user("admin", "*"), user("editor", "*")];
  await using gateway = await openFlowgate(optionsOf(folder.path, { adminAuth: { users: [admin, editor] } }));
  const status = async (username: string): Promise<number> => {
    const body = new URLSearchParams(tokenParameters({ username }));
    return (await fetch(`${gateway.url}/auth/token`, { method: "POST", body })).status;
  };
  await gateway.reloadUsers(() => optionsOf(folder.path, { adminAuth: { users: [admin] } }));
  expect([await status("admin"), await status("editor")]).toEqual([200, 400]);
  await gateway.reloadUsers(async () => ({ adminAuth: { users: [] } }));
  await gateway.reloadUsers(() => Promise.reject(new Error("there is no file")));
  await gateway.reloadUsers(() => optionsOf(folder.path));
  expect([await status("admin"), await status("editor")]).toEqual([200, 400]);
});
