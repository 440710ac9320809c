import { randomBytes } from "node:crypto";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { openDatabase } from "../../src/store/postgres/database.ts";
import { parseLocation } from "../../src/store/postgres/location.ts";
import { migrate } from "../../src/store/postgres/schema.ts";
import { createAuthority, issueServer } from "../certificates.ts";
import { createDatabase, startServer } from "../postgres/postgres.ts";
import { createFolder } from "./builders.ts";
import { openAt } from "./postgres-location.ts";

const key = randomBytes(32);

describe("the URL", () => {
  test.each([
    [
      "//ada:p%40ss@db.example:6432/flows",
      { host: "db.example", port: 6432, user: "ada", password: "p@ss", database: "flows" },
    ],
    ["//localhost/flows", { host: "localhost", database: "flows", ssl: false }],
    ["//[::1]:5433/flows", { host: "::1", port: 5433, ssl: false }],
    ["///flows?host=/run/postgresql", { host: "/run/postgresql", database: "flows", ssl: false }],
    ["//ada@/flows?host=/run/postgresql", { host: "/run/postgresql", user: "ada", ssl: false }],
    ["//db.example/flows", { ssl: { rejectUnauthorized: true } }],
    ["//127.0.0.1/flows?sslmode=verify-full", { ssl: { rejectUnauthorized: true } }],
    ["//db.example/flows?sslmode=no-verify", { ssl: { rejectUnauthorized: false } }],
    ["//db.example/flows?sslmode=disable&application_name=edge", { ssl: false, application_name: "edge" }],
  ])("%s", (location, server) => {
    const { servers, poolSize } = parseLocation(location);
    expect(servers).toEqual([expect.objectContaining(server)]);
    expect(poolSize).toBe(10);
  });

  test("names several servers", () => {
    const { servers, poolSize } = parseLocation("//ada:secret@one.example:1,two.example:2,[::1]/flows?pool_size=4");
    expect(servers.map(({ host, port, user, database }) => [host, port, user, database])).toEqual([
      ["one.example", 1, "ada", "flows"],
      ["two.example", 2, "ada", "flows"],
      ["::1", undefined, "ada", "flows"],
    ]);
    expect(poolSize).toBe(4);
  });

  test.each([
    ["flows", "store: must have the form postgres://user:password@host:5432/database"],
    ["//ada:secret@/flows", "store: must have the form"],
    ["//ada:sec/ret@host/flows", "store: must have the form"],
    ["//ada:pass?secret@host/flows", "store: must have the form"],
    ["//ada:pass/?secret=@host/flows", "store: must have the form"],
    ["//host:port/flows", "store: must have the form"],
    ["//host/flows?sslmod=disable", "store: the parameter sslmod is unknown: use host, sslmode"],
    ["//host/flows?sslmode=prefer", "store: sslmode must be one of: disable, verify-full, no-verify"],
    ["//host/flows?pool_size=3", "store: pool_size must be a whole number between 4 and 1000"],
    ["//host/flows?sslmode=verify-full&sslrootcert=/nowhere", "store: the file that sslrootcert names can't be read"],
  ])("%s is rejected", (location, message) => {
    let error: unknown;
    try {
      parseLocation(location);
    } catch (thrown) {
      error = thrown;
    }
    expect(String(error)).toContain(message);
    expect(String(error)).not.toContain("secret");
  });
});

describe("opening fails with a message that says why, if", () => {
  test("the password is wrong, the database missing, or nobody listens", async () => {
    await using database = await createDatabase();
    const { password, port } = new URL(database.url);
    const failure = (url: string): Promise<unknown> => openAt(url, key).catch((error: Error) => error.message);
    const failures = [
      await failure(database.url.replace(password, `wrong-${password}`)),
      await failure(`${database.url}_missing`),
      await failure(database.url.replace(`:${port}`, ":1")),
      await failure(`${database.url}?sslmode=verify-full`),
    ];
    expect(failures).toEqual([
      expect.stringContaining("rejects the user or the password"),
      expect.stringContaining("does not exist: create it"),
      expect.stringContaining("no database accepts connections"),
      expect.stringContaining("does not support TLS"),
    ]);
    expect(failures.join("\n")).not.toContain(password);
  });

  test("the key is another one", async () => {
    await using database = await createDatabase();
    await (await openAt(database.url, key))[Symbol.asyncDispose]();
    await expect(openAt(database.url, randomBytes(32))).rejects.toThrow(
      "can't be decrypted with this credentialSecret",
    );
  });

  test("the schema is newer", async () => {
    await using database = await createDatabase();
    await (await openAt(database.url, key))[Symbol.asyncDispose]();
    await database.query("UPDATE flowgate.schema_version SET version = 99");
    await expect(openAt(database.url, key)).rejects.toThrow(
      "created by a newer version of Flowgate (schema version 99",
    );
  });

  test("the schema is of an unreleased version", async () => {
    await using database = await createDatabase();
    await (await openAt(database.url, key))[Symbol.asyncDispose]();
    await database.query("UPDATE flowgate.schema_version SET version = 15");
    await expect(openAt(database.url, key)).rejects.toThrow(
      "the database of the store was created by an unreleased version of Flowgate (schema version 15; this one supports 16 and later): export the flows with that version, and deploy them to a new store",
    );
  });

  test("the servers are standbys", async () => {
    await using primary = await startServer({ settings: { fsync: "off" } });
    const database = await primary.createDatabase();
    await using standby = await primary.createStandby();
    await expect(openAt(database.urlAt(standby.port), key)).rejects.toThrow("no server of the store is a primary");
    await using store = await openAt(database.urlAt(standby.port, primary.port), key);
    expect(store.health()).toEqual({ isUsable: true });
  });
});

test("migrates to the schema of a next version once, and refuses it afterwards", async () => {
  await using database = await createDatabase();
  await (await openAt(database.url, key))[Symbol.asyncDispose]();
  {
    await using connection = await openDatabase(parseLocation(database.url.slice("postgres:".length)));
    for (const _ of ["migrated", "unchanged"]) {
      await migrate(connection, ["ALTER TABLE flowgate.revision ADD COLUMN next text NOT NULL DEFAULT 'yes'"]);
    }
  }
  expect(await database.query("SELECT next FROM flowgate.revision")).toEqual([{ next: "yes" }]);
  await expect(openAt(database.url, key)).rejects.toThrow("(schema version 17; this one supports 16)");
});

test("connections over TLS need a certificate that is trusted", async () => {
  await using folder = await createFolder();
  const [trusted, other] = [createAuthority(), createAuthority("Another authority")];
  const [ca, otherCa] = [join(folder.path, "ca.pem"), join(folder.path, "other.pem")];
  await writeFile(ca, trusted.cert);
  await writeFile(otherCa, other.cert);
  await using server = await startServer({ settings: { fsync: "off" }, tls: issueServer(trusted) });
  const { url } = await server.createDatabase();
  await using store = await openAt(`${url}?sslmode=verify-full&sslrootcert=${ca}`, key);
  expect(store.health()).toEqual({ isUsable: true });
  await using _ = await openAt(`${url}?sslmode=no-verify`, key);
  for (const untrusted of [`${url}?sslmode=verify-full`, `${url}?sslmode=verify-full&sslrootcert=${otherCa}`]) {
    await expect(openAt(untrusted, key)).rejects.toThrow("the certificate of the database is not trusted");
  }
});
