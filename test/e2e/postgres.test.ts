import { expect, test } from "vitest";
import { createDatabase } from "../postgres/postgres.ts";
import { deploy } from "./deploy.ts";
import { endpoint } from "./flow-builders.ts";
import { eventually, startService } from "./service.ts";

test("a deployment on one replica reaches the flows of another one", async () => {
  await using database = await createDatabase();
  const config = { store: database.url, credentialSecret: "a secret that all replicas share" };
  await using first = await startService({ config });
  await using second = await startService({ config });
  await deploy(first, { flows: endpoint("/hello", `msg.payload = "one"`) });
  expect(await first.get("/hello")).toBe("one");
  await eventually(async () => expect(await second.get("/hello")).toBe("one"));
  await deploy(second, { flows: endpoint("/hello", `msg.payload = "two"`) }, "nodes");
  await eventually(async () => expect(await first.get("/hello")).toBe("two"));
});
