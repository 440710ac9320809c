import { mkdtempDisposable, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { runCommand } from "../cli/run-command.ts";
import { createDatabase } from "../postgres/postgres.ts";
import { deploy } from "./deploy.ts";
import { installReporter, reporter, tab } from "./flow-builders.ts";
import { bearer, v2 } from "./rest.ts";
import { type Service, startService } from "./service.ts";
import { login, user } from "./users.ts";

const adminAuth = { users: [user("admin", "*")] };

async function read(service: Service, token: string) {
  const get = async (path: string) =>
    (await service.send("GET", path, { headers: { ...bearer(token), ...v2 } })).json();
  const reported = JSON.parse(await service.get("/reporter", bearer(token))) as unknown;
  return { flows: await get("/flows"), revisions: await get("/revisions"), reported };
}

test("a service that moves from SQLite to PostgreSQL has the same flows, history, credentials, tokens and audit log", async () => {
  await using database = await createDatabase();
  await using folder = await mkdtempDisposable(join(tmpdir(), "flowgate-migrate-"));
  const dataDir = join(folder.path, "data");
  let token = "";
  let before: unknown;
  {
    await using service = await startService({ config: { adminAuth }, dataDir, prepare: installReporter });
    token = await login(service, {});
    const flows = [tab("T"), reporter("a", "T", { n: 1 })];
    await deploy(service, { flows: [tab("before")] }, "full", bearer(token));
    await deploy(service, { flows, credentials: { a: { password: "the secret" } } }, "full", bearer(token));
    before = await read(service, token);
  }
  const config = { adminAuth, dataDir, store: database.url, credentialSecret: "a secret for all replicas" };
  const path = join(folder.path, "flowgate.yaml");
  await writeFile(path, JSON.stringify(config));
  const migrated = await runCommand(["migrate", "--config", path, "--from", `sqlite:${dataDir}/flowgate.db`]);
  expect(migrated).toMatchObject({ code: 0, stderr: "" });
  expect(migrated.stdout).toContain("(revisions: 3, tokens: 1, audit entries: 3)");

  await using service = await startService({ config, dataDir });
  expect(await read(service, token)).toEqual(before);
  expect(before).toMatchObject({ reported: { credentials: { "the a": { password: "the secret" } } } });
  const audit = (await service.send("GET", "/audit?pageSize=1", { headers: bearer(token) })).json();
  expect(audit).toMatchObject({ entries: [{ kind: "store_migrated", detail: "sqlite to postgres" }] });
  const verified = await runCommand(["audit", "verify", "--config", path]);
  expect(verified.stdout).toContain("The audit log is intact: 4 entries.");

  // A backup of the running service.
  const file = join(folder.path, "backup.db");
  expect(await runCommand(["backup", file, "--config", path])).toEqual({
    code: 0,
    stdout: `Backed up to ${file}. Its credentials are encrypted: back up credentialSecret too, in another place.\n`,
    stderr: "",
  });
  await using other = await createDatabase();
  const restored = await runCommand(["restore", file, "--config", path, "--store", other.url]);
  expect(restored).toEqual({ code: 0, stdout: `Restored ${file}; users have to log in again.\n`, stderr: "" });
});
