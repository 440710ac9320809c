import { readFile } from "node:fs/promises";
import { expect, test } from "vitest";
import * as z from "zod";
import { settings } from "../src/cli/settings.ts";
import { type OptionsInput, OptionsError, optionsSchema, parseOptions } from "../src/options.ts";

const hash = "$argon2id$v=19$m=65536,t=2,p=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc";
const ada = { username: "ada", password: hash, permissions: "*" };

/** What is wrong with these options; they may be of any shape. */
function problems(input: unknown): string[] {
  try {
    parseOptions(input as OptionsInput);
  } catch (error) {
    if (error instanceof OptionsError) {
      return error.message.split("\n");
    }
    throw error;
  }
  return [];
}

test("refuses one port for two servers, but lets each take a free one", () => {
  expect(() => parseOptions({ port: 5000, runtime: { port: 5000 } })).toThrow(
    "runtime.port: must be another than port, which the API takes",
  );
  expect(parseOptions({ port: 5000, runtime: { port: 5000, host: "127.0.0.2" } }).runtime.port).toBe(5000);
  expect(parseOptions({ port: 0, runtime: { port: 0 } }).port).toBe(0);
});

test("has a default for everything", () => {
  expect(parseOptions({})).toEqual({
    host: "127.0.0.1",
    port: 8080,
    dataDir: "./data",
    allowUnauthenticated: false,
    docs: true,
    runtime: {
      host: "127.0.0.1",
      port: 1880,
      dir: "data/runtime",
      deadlineMs: 30_000,
      nodeCloseTimeoutMs: 5000,
      restart: { backoffMs: 100, maxBackoffMs: 10_000, shortLifeMs: 30_000, safeModeAfter: 5 },
      allow: {
        fileSystemRead: [],
        fileSystemWrite: [],
        childProcess: false,
        worker: false,
        nativeAddons: false,
        env: [],
      },
    },
    limits: { bodyBytes: 16_777_216 },
    log: { level: "info" },
  });
});

test("reads adminAuth, with permissions as a word or a list", () => {
  const { adminAuth } = parseOptions({
    adminAuth: {
      users: [ada, { ...ada, username: "bob", permissions: ["flows.read", "read"] }],
      default: { permissions: "read" },
    },
  });
  expect(adminAuth).toEqual({
    type: "credentials",
    users: [
      { ...ada, permissions: ["*"] },
      { ...ada, username: "bob", permissions: ["flows.read", "read"] },
    ],
    default: { permissions: ["read"] },
    clientIds: ["service-admin", "service-editor"],
    tokenLifetimeSeconds: 604_800,
  });
});

test("keeps the runtime's directory in the data directory, unless it is told another", () => {
  expect(parseOptions({ dataDir: "/var/lib/flowgate" }).runtime.dir).toBe("/var/lib/flowgate/runtime");
  expect(parseOptions({ runtime: { dir: "/srv" } }).runtime.dir).toBe("/srv");
});

const permissionNames = "must be one or several of: *, read, flows.read, flows.write, settings.read";

test.each<[unknown, string[]]>([
  [null, ["options: must be keys and values"]],
  [{ port: "8080" }, ["port: must be a whole number from 0 to 65535"]],
  [{ port: 65_536 }, ["port: must be a whole number from 0 to 65535"]],
  [{ port: 1.5 }, ["port: must be a whole number from 0 to 65535"]],
  [{ port: null }, ["port: must be a whole number from 0 to 65535"]],
  [{ dataDir: "" }, ["dataDir: must not be empty"]],
  [{ runtime: null }, ["runtime: must be keys and values"]],
  [{ runtime: { allow: { env: "PATH" } } }, ["runtime.allow.env: must be a list of names"]],
  [{ log: { level: "loud" } }, ["log.level: must be one of: trace, debug, info, warn, error, fatal, silent"]],
  [{ limits: { bodyBites: 1 }, hots: 1 }, ["limits.bodyBites: unknown key", "hots: unknown key"]],
  [JSON.parse('{"__proto__": {"port": 1}}'), ["__proto__: unknown key"]],
  [{ adminAuth: null }, ["adminAuth: must be keys and values"]],
  [{ adminAuth: {} }, ["adminAuth.users: must be a list of users"]],
  [{ adminAuth: { users: [] } }, ["adminAuth.users: must name at least one user"]],
  [{ adminAuth: { users: [ada, ada] } }, ["adminAuth.users[1].username: is the same as that of users[0]"]],
  [
    { adminAuth: { users: [{ ...ada, permissions: "flows.wirte" }] } },
    [`adminAuth.users[0].permissions: ${permissionNames}`],
  ],
  [
    { adminAuth: { users: [{ ...ada, permissions: ["read", "flow.read"] }] } },
    [`adminAuth.users[0].permissions: ${permissionNames}`],
  ],
  [
    { adminAuth: { users: [ada], default: {} } },
    ["adminAuth.default.permissions: must be a permission or a list of permissions"],
  ],
  [{ adminAuth: { users: [ada], type: "oauth" } }, ['adminAuth.type: must be "credentials"']],
  [
    { adminAuth: { users: [{ username: "ada", password: "hunter2", permissions: "hunter2" }] }, port: "hunter2" },
    [
      "port: must be a whole number from 0 to 65535",
      "adminAuth.users[0].password: must be an argon2id or bcrypt hash, not the password itself, and of bearable cost; `flowgate hash-password` makes one",
      `adminAuth.users[0].permissions: ${permissionNames}`,
    ],
  ],
])("says what is wrong with %j", (input, expected) => {
  expect(problems(input)).toEqual(expected);
});

const exposed =
  "host: would let everyone on the network in, since adminAuth is not set: set adminAuth, listen on 127.0.0.1, or set allowUnauthenticated: true";

test.each([
  ["127.0.0.1", []],
  ["127.1.2.3", []],
  ["::1", []],
  ["::ffff:127.0.0.1", []],
  ["localhost", []],
  ["0.0.0.0", [exposed]],
  ["::", [exposed]],
  ["192.168.0.1", [exposed]],
  ["flowgate.example", [exposed]],
  ["127.0.0.1.example", [exposed]],
])("whether %s may be open to everyone: %j", (host, expected) => {
  expect(problems({ host })).toEqual(expected);
  expect(problems({ host, allowUnauthenticated: true })).toEqual([]);
  expect(problems({ host, adminAuth: { users: [ada] } })).toEqual([]);
});

/** The rows of the document's table, as the schema has them. */
function rows(schema: z.core.$ZodType, path = ""): string[] {
  const { inner, fallback, optional, description } = open(schema);
  const set = settings.find((setting) => setting.path.join(".") === path);
  const by = set === undefined ? "" : `\`--${set.flag}\`, \`${set.variable}\``;
  const own = (fallback: string) => `| \`${path}\` | ${fallback} | ${by}${by && " "}| ${description ?? ""} |`;
  if (inner instanceof z.ZodObject) {
    const fields = Object.entries(inner.shape as Record<string, z.core.$ZodType>).flatMap(([key, field]) =>
      rows(field, path === "" ? key : `${path}.${key}`),
    );
    return description === undefined ? fields : [own(optional ? "absent" : "required"), ...fields];
  }
  const items = inner instanceof z.ZodArray ? open(inner.element).inner : undefined;
  const derived = path === "runtime.dir" ? parseOptions({ dataDir: "<dataDir>" }).runtime.dir : fallback;
  return [
    own(derived === undefined ? (optional ? "absent" : "required") : `\`${JSON.stringify(derived)}\``),
    ...(items instanceof z.ZodObject ? rows(items, `${path}[]`) : []),
  ];
}

/** What is inside optional, default and readonly; the outermost description counts. */
function open(schema: z.core.$ZodType) {
  let inner = schema;
  let fallback: unknown;
  let optional = false;
  let description = z.globalRegistry.get(schema)?.description;
  while (
    inner instanceof z.ZodDefault ||
    inner instanceof z.ZodPrefault ||
    inner instanceof z.ZodOptional ||
    inner instanceof z.ZodReadonly
  ) {
    optional ||= inner instanceof z.ZodOptional;
    fallback ??= inner instanceof z.ZodDefault ? inner.def.defaultValue : undefined;
    inner = inner.unwrap();
    description ??= z.globalRegistry.get(inner)?.description;
  }
  return { inner, fallback, optional, description };
}

test("docs/configuration.md has each key, its default, its flag, its variable and its meaning", async () => {
  const page = await readFile(new URL("../docs/configuration.md", import.meta.url), "utf8");
  const table = page.split("| key | default | flag, variable | meaning |\n|---|---|---|---|\n")[1]?.split("\n\n")[0];
  expect(table?.split("\n")).toEqual(rows(optionsSchema));
});
