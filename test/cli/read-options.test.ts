import { mkdtempDisposable, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { readOptions } from "../../src/cli/read-options.ts";

/** Reads options from YAML, flags and variables; returns the problems if they are invalid. */
async function read(
  yaml: string | Buffer,
  { flags = {}, variables = {} }: { flags?: Record<string, string>; variables?: Record<string, string> } = {},
) {
  await using directory = await mkdtempDisposable(join(tmpdir(), "flowgate-"));
  const config = join(directory.path, "flowgate.yaml");
  await writeFile(config, yaml);
  return await readOptions(new Map(Object.entries({ config, ...flags })), variables).catch((error: Error) =>
    error.message.replaceAll(config, "flowgate.yaml"),
  );
}

test("prefers flags to variables, variables to the file, and the file to defaults", async () => {
  const yaml = "host: 127.0.0.2\nport: 1\ndataDir: file\nruntime:\n  port: 2\n  host: 127.0.0.3\n";
  const options = await read(yaml, {
    flags: { port: "10", "runtime-port": "0" },
    variables: { FLOWGATE_PORT: "100", FLOWGATE_DATA_DIR: "variable", FLOWGATE_HOST: "" },
  });
  expect(options).toMatchObject({
    host: "127.0.0.2",
    port: 10,
    dataDir: "variable",
    runtime: { port: 0, host: "127.0.0.3", deadlineMs: 30_000 },
  });
});

test("reads the file named by a variable, or no file", async () => {
  const none = await readOptions(new Map(), {});
  expect(none.port).toBe(8080);
  await expect(readOptions(new Map(), { FLOWGATE_CONFIG: "/nowhere.yaml" })).rejects.toThrow("/nowhere.yaml");
});

test.each(["", "# nothing yet\n", "---\n", "null\n"])("treats the file %j as empty", async (yaml) => {
  expect(await read(yaml)).toMatchObject({ port: 8080 });
});

const users = "adminAuth:\n  users:\n    - username: ada\n      password: hunter2\n      permissions: read\n";
const notHash =
  "must be an argon2id or bcrypt hash, not the password itself, with a cost within the supported range; `flowgate hash-password` creates one";

test.each([
  [
    "host: 127.0.0.1\n\nlimits:\n  # too few\n  bodyBites: 1\n",
    "flowgate.yaml:5: limits.bodyBites: unknown key; did you mean bodyBytes?",
  ],
  ["zzz: 1\n", "flowgate.yaml:1: zzz: unknown key"],
  ["port: many\n", "flowgate.yaml:1: port: must be a whole number from 0 to 65535"],
  ["# ports\nport:\n", "flowgate.yaml:2: port: must be a whole number from 0 to 65535"],
  [users, `flowgate.yaml:4: adminAuth.users[0].password: ${notHash}`],
  [
    "adminAuth:\n  users:\n    - username: ada\n",
    "flowgate.yaml:3: adminAuth.users[0].password: is missing: it must be a password hash; `flowgate hash-password` creates one\n" +
      "flowgate.yaml:3: adminAuth.users[0].permissions: must be a permission or a list of permissions",
  ],
  [
    "log: &log {level: loud}\n",
    "flowgate.yaml:1: log.level: must be one of: trace, debug, info, warn, error, fatal, silent",
  ],
  ["port: 1\nhost: 127.0.0.1\nport: 2\n", "flowgate.yaml:3: duplicate key"],
  ["a: *b\n", "flowgate.yaml:1: an alias without an anchor; text that begins with * needs quotes"],
  ["a:\n\tb: 1\n", "flowgate.yaml:2: indent with spaces, not with tabs"],
  ["port: 1\n? {a: 1}\n: 2\n", "flowgate.yaml:2: keys must be text"],
  ["port: 1\n---\nport: 2\n", "flowgate.yaml:2: the file must have only one document"],
  ["- port\n", "flowgate.yaml:1: must be keys and values"],
  ["port\n", "flowgate.yaml:1: must be keys and values"],
  ["runtime: 1\n", "flowgate.yaml:1: runtime: must be keys and values"],
  ["__proto__:\n  port: 1\n", "flowgate.yaml:1: __proto__: unknown key"],
  [Buffer.from([0x68, 0xff]), "flowgate.yaml: is not UTF-8"],
])("reports the problem of %j with its source", async (yaml, message) => {
  expect(await read(yaml)).toBe(message);
});

test.each([
  'port: 1\ncredentialSecret: "hunter2\n',
  "credentialSecret: [hunter2\n",
  "credentialSecret: hunter2\n  hunter2: }\n",
  "credentialSecret: %hunter2\n",
  "credentialSecret: *hunter2\n",
  "credentialSecret: !hunter2 x\n",
  "? hunter2\n]\n",
  "\t- hunter2\n",
])("reports the line of a syntax error, without its text: %j", async (yaml) => {
  const message = await read(yaml);
  expect(message).toMatch(/^flowgate\.yaml:\d+: /);
  expect(message).not.toContain("hunter2");
});

test("reports the flag if both file and flag set the same key", async () => {
  expect(await read("port: 1\n", { flags: { port: "x" } })).toBe("--port: must be a whole number from 0 to 65535");
  expect(await read("runtime: 1\n", { flags: { "runtime-port": "2" } })).toBe(
    "flowgate.yaml:1: runtime: must be keys and values",
  );
});
