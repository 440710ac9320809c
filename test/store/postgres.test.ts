import { randomBytes } from "node:crypto";
import { readFile } from "node:fs/promises";
import { Client } from "pg";
import { afterAll, beforeAll, expect, test } from "vitest";
import { query, superuserUrl } from "../postgres/database.ts";
import { getInstallation, startServer } from "../postgres/postgres.ts";
import type { Server } from "../postgres/server.ts";
import type { StoreLocation } from "./contract.ts";
import { openAt } from "./postgres-location.ts";
import { storeContract } from "./store-contract.ts";

// As the smallest role of docs/scaling.md: what it may do, the owner of the schema may do too. Each test has a database of its own, a copy
// of one that the owner has opened.
const page = await readFile(new URL("../../docs/scaling.md", import.meta.url), "utf8");
const section = page.slice(page.indexOf("### The smallest role"), page.indexOf("## Topologies"));
const [asSuperuser = [], asOwner = []] = [...section.matchAll(/```sql\n(.*?)```/gs)].map(([, sql = ""]) =>
  sql
    .replaceAll(/^--.*$/gm, "")
    .replaceAll("'…'", "'secret'")
    .split(";")
    .map((statement) => statement.trim())
    .filter(Boolean),
);

const key = randomBytes(32);
const isRole = (statement: string): boolean => statement.startsWith("CREATE ROLE");
const [create = "", ...grants] = asSuperuser.filter((each) => !isRole(each));
const named = (statement: string, name: string): string => statement.replace("DATABASE flowgate", `DATABASE ${name}`);

let server: Server;
let superuser: Client;
const urlOf = (role: string, name: string): string => `postgres://${role}:secret@127.0.0.1:${server.port}/${name}`;

beforeAll(async () => {
  server = await startServer({ settings: { fsync: "off" } });
  superuser = new Client({ connectionString: superuserUrl({ port: server.port, ...(await getInstallation()) }) });
  await superuser.connect();
  for (const statement of [...asSuperuser.filter(isRole), named(create, "opened")]) {
    await superuser.query(statement);
  }
  const url = urlOf("flowgate_owner", "opened");
  await (await openAt(url, key))[Symbol.asyncDispose]();
  await query(url, asOwner.join(";"));
});
afterAll(async () => {
  await superuser.end();
  await server[Symbol.asyncDispose]();
});

async function createLocation(): Promise<StoreLocation & { readonly url: string }> {
  const name = `smallest_${randomBytes(6).toString("hex")}`;
  await superuser.query(`${named(create, name)} TEMPLATE opened`);
  await superuser.query(grants.map((each) => named(each, name)).join(";"));
  const url = urlOf("flowgate_service", name);
  return {
    url,
    open: () => openAt(url, key),
    async [Symbol.asyncDispose]() {
      await superuser.query(`DROP DATABASE ${name} WITH (FORCE)`);
    },
  };
}

storeContract(createLocation);

test.each([
  "CREATE TABLE flowgate.more ()",
  "CREATE SCHEMA more",
  "ALTER TABLE flowgate.token ADD COLUMN more text",
  "DROP TABLE flowgate.audit",
  "TRUNCATE flowgate.revision",
  "UPDATE flowgate.schema_version SET version = 99",
  "UPDATE flowgate.audit SET kind = 'other'",
])("the role of the service can't run %s", async (statement) => {
  await using location = await createLocation();
  await expect(query(location.url, statement)).rejects.toThrow(/permission denied|must be owner/);
});
