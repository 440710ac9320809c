import { randomBytes } from "node:crypto";
import { readFile } from "node:fs/promises";
import { afterAll, beforeAll, expect, test } from "vitest";
import { query } from "../postgres/database.ts";
import { startServer } from "../postgres/postgres.ts";
import type { Server } from "../postgres/server.ts";
import type { StoreLocation } from "./contract.ts";
import { openAt } from "./postgres-location.ts";
import { storeContract } from "./store-contract.ts";

// As the smallest role of docs/scaling.md: what it may do, the owner of the schema may do too. Each test has a database of its own.
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

let server: Server;
beforeAll(async () => {
  server = await startServer({ settings: { fsync: "off" } });
  for (const statement of asSuperuser.filter((each) => each.startsWith("CREATE ROLE"))) {
    await server.query(statement);
  }
});
afterAll(() => server[Symbol.asyncDispose]());

async function createLocation(): Promise<StoreLocation & { readonly url: string }> {
  const key = randomBytes(32);
  const name = `smallest_${randomBytes(6).toString("hex")}`;
  const [create = "", ...grants] = asSuperuser
    .filter((each) => !each.startsWith("CREATE ROLE"))
    .map((each) => each.replace("DATABASE flowgate", `DATABASE ${name}`));
  await server.query(create);
  await server.query(grants.join(";"));
  const urlOf = (role: string): string => `postgres://${role}:secret@127.0.0.1:${server.port}/${name}`;
  await (await openAt(urlOf("flowgate_owner"), key))[Symbol.asyncDispose]();
  await query(urlOf("flowgate_owner"), asOwner.join(";"));
  const url = urlOf("flowgate_service");
  return {
    url,
    open: () => openAt(url, key),
    async [Symbol.asyncDispose]() {
      await server.query(`DROP DATABASE ${name} WITH (FORCE)`);
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
