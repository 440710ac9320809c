import { expect, test } from "vitest";
import { createDatabase } from "../postgres/postgres.ts";
import { deploy } from "./deploy.ts";
import { endpoint } from "./flow-builders.ts";
import { eventually, startService, withoutRuntime } from "./service.ts";

test("a deployment on one replica reaches the flows of another one, and no log has the password of the database", async () => {
  await using database = await createDatabase();
  const secret = "a secret that all replicas share";
  const config = { store: database.url, credentialSecret: secret, log: { level: "trace" as const } };
  await using first = await startService({ config });
  await using second = await startService({ config });
  await deploy(first, { flows: endpoint("/hello", `msg.payload = "one"`) });
  expect(await first.get("/hello")).toBe("one");
  await eventually(async () => expect(await second.get("/hello")).toBe("one"));
  await deploy(second, { flows: endpoint("/hello", `msg.payload = "two"`) }, "nodes");
  await eventually(async () => expect(await first.get("/hello")).toBe("two"));
  const { password } = new URL(database.url);
  expect(password).not.toBe("");
  expect(`${first.log()}${second.log()}`).not.toContain(password);
});

test("a client that names the revision it knows reads its own write at another replica", async () => {
  await using database = await createDatabase();
  const config = { ...withoutRuntime, store: database.url, credentialSecret: "a secret that all replicas share" };
  await using first = await startService({ config });
  await using second = await startService({ config });
  for (let count = 0; count < 20; count += 1) {
    const [writer, reader] = count % 2 === 0 ? [first, second] : [second, first];
    const rev = await deploy(writer, { flows: endpoint("/hello", `msg.payload = ${count}`) }, "nodes");
    const known = await reader.send("GET", "/flows", { headers: { "service-known-revision": rev } });
    expect(known.headers.etag).toContain(rev);
    const cached = await reader.send("GET", "/flows", { headers: { "if-none-match": `"${rev}"` } });
    expect(cached.status).toBe(304);
  }
});
