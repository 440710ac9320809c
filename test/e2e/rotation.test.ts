import { mkdtempDisposable, readFile, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { runCommand } from "../cli/run-command.ts";
import { createDatabase } from "../postgres/postgres.ts";
import { deploy } from "./deploy.ts";
import { functionNode, tab } from "./flow-builders.ts";
import { askKeeper, installKeeper, keeper } from "./keeper.ts";
import { eventually, type Service, startService } from "./service.ts";

const flows = [tab("T"), keeper("k"), keeper("l")];
const credentials = { k: { token: "t1" }, l: { token: "t1" } };

const read = (service: Service, id: string) => askKeeper(service, "/keeper", { id });

/** The node `k` has stored its token, and `l` has that of the first deployment, also after an undo. */
async function expectTokens(service: Service, token: string): Promise<void> {
  await eventually(async () => {
    expect(await read(service, "k")).toMatchObject({ stored: { token } });
    expect(await read(service, "l")).toMatchObject({ stored: { token: "t1" } });
  });
}

async function fill(service: Service): Promise<void> {
  await deploy(service, { flows, credentials });
  await askKeeper(service, "/keeper/renew", { id: "k", json: JSON.stringify({ token: "t2" }) });
  await askKeeper(service, "/keeper/set", { json: "7" });
  await deploy(service, { flows: [...flows, functionNode("f", { z: "T" })] }, "nodes");
}

/** What was written before and after a rotation is there after a restart of the flows, and an undo. */
async function use(service: Service): Promise<void> {
  await askKeeper(service, "/keeper/renew", { id: "k", json: JSON.stringify({ token: "t3" }) });
  expect((await service.send("POST", "/flows:undo")).status).toBe(200);
  await expectTokens(service, "t3");
  expect(await askKeeper(service, "/keeper/settings")).toMatchObject({ now: 7 });
}

async function auditOf(service: Service): Promise<unknown> {
  const reply = await service.send("GET", "/audit?kind=credential_rotation_begun&kind=credentials_rotated");
  return (reply.json() as { entries: { kind: string; detail: string }[] }).entries.map(({ kind, detail }) => [
    kind,
    detail,
  ]);
}

const rotated = [
  ["credentials_rotated", "revisions: 3, proposals: 0, nodes: 1, settings: 1, sessions: 0"],
  ["credential_rotation_begun", "new values are encrypted with the new key"],
];

test("a service without a secret gets a new key while it runs, and keeps the previous one for backups", async () => {
  await using folder = await mkdtempDisposable(join(tmpdir(), "flowgate-rotation-"));
  const dataDir = join(folder.path, "data");
  const backup = join(folder.path, "backup.db");
  {
    await using service = await startService({ dataDir, prepare: installKeeper });
    await fill(service);
    await runCommand(["backup", backup, "--data-dir", dataDir]);
    const before = await readFile(join(dataDir, "credential.key"));
    expect(await runCommand(["credentials", "rotate", "--data-dir", dataDir])).toEqual({
      code: 0,
      stdout:
        "Waiting until these know the new secret: the service that uses the store\n" +
        "Everything is written with the new secret from now on. Encrypting what was written before.\n" +
        `Everything is encrypted with ${dataDir}/credential.key (revisions: 3, proposals: 0, nodes: 1, settings: 1, sessions: 0). ` +
        `The previous key is in ${dataDir}/credential.key.replaced-1: delete it when no backup from before needs it. Back up the new one.\n`,
      stderr: "",
    });
    expect(await readFile(join(dataDir, "credential.key"))).not.toEqual(before);
    expect(await readFile(join(dataDir, "credential.key.replaced-1"))).toEqual(before);
    await use(service);
    expect(await auditOf(service)).toEqual(rotated);
  }
  expect(await runCommand(["restore", backup, "--data-dir", dataDir])).toMatchObject({ code: 0 });
  await using service = await startService({ dataDir });
  await service.untilLogged(/encrypted with a previous secret: run flowgate credentials rotate/);
  await expectTokens(service, "t2");
});

test("--generate and --new-secret-file replace the secret in the configuration file of a service that runs", async () => {
  await using service = await startService({ config: { credentialSecret: "old", port: 1 }, prepare: installKeeper });
  const config = join(service.dataDir, "..", "flowgate.yaml");
  const rotate = (...args: string[]) =>
    runCommand(["credentials", "rotate", "--config", config, "--data-dir", service.dataDir, ...args]);
  await fill(service);
  expect(await rotate()).toMatchObject({
    code: 0,
    stdout: expect.stringContaining("Everything is encrypted with credentialSecret already") as string,
  });
  expect(await rotate("--generate")).toMatchObject({ code: 0, stderr: "" });
  const generated = JSON.parse(await readFile(config, "utf8")) as Record<string, unknown>;
  expect(generated).toMatchObject({
    credentialSecret: expect.stringMatching(/^[\w+/]{43}=$/) as string,
    previousCredentialSecrets: ["old"],
  });
  expect(await auditOf(service)).toEqual(rotated);
  await use(service);
  const file = join(service.dataDir, "new");
  await writeFile(file, "the newest\n");
  expect(await rotate("--new-secret-file", file)).toMatchObject({ code: 0, stderr: "" });
  expect(JSON.parse(await readFile(config, "utf8"))).toMatchObject({
    credentialSecret: "the newest",
    previousCredentialSecrets: [generated["credentialSecret"], "old"],
  });
  expect(await rotate("--new-secret-file", file)).toEqual({
    code: 1,
    stdout: "",
    stderr: `flowgate: The rotation failed: --new-secret-file: ${file} contains a secret that is or was credentialSecret: use a new one\n`,
  });
  // The previous secrets are not needed any more.
  await service.replaceConfig({ credentialSecret: "the newest", port: 1 });
  await service.untilLogged(/changed secrets of credentials are in force(.|\n)*changed secrets(.|\n)*changed secrets/);
  await expectTokens(service, "t3");
  expect(service.log()).not.toMatch(/the newest|error/);
});

test("replicas change the secret while they run, when all of them know the new one", async () => {
  await using database = await createDatabase();
  await using folder = await mkdtempDisposable(join(tmpdir(), "flowgate-rotation-"));
  const before = { store: database.url, credentialSecret: "the old secret", runtime: { mode: "one", leaseMs: 2_000 } };
  const after = { ...before, credentialSecret: "the new secret", previousCredentialSecrets: ["the old secret"] };
  await using stack = new AsyncDisposableStack();
  const start = async (config: object) =>
    stack.use(await startService({ config, prepare: installKeeper, ownProcess: true }));
  const [one, other] = [await start(before), await start(before)];
  await fill(one);
  const config = join(folder.path, "flowgate.yaml");
  await writeFile(config, JSON.stringify({ ...after, dataDir: folder.path }));
  const rotate = (...args: string[]) => runCommand(["credentials", "rotate", "--config", config, ...args]);
  await one.replaceConfig(after);
  await one.untilLogged(/changed secrets of credentials are in force/);
  const refused = await rotate("--wait", "1s");
  expect(refused).toMatchObject({
    code: 1,
    stderr: expect.stringMatching(/does not know the new secret, and nothing was changed/) as string,
  });
  expect(await auditOf(one)).toEqual([]);
  await other.replaceConfig(after);
  expect(await rotate()).toMatchObject({ code: 0, stderr: "" });
  expect(await auditOf(other)).toEqual(rotated);
  await use(one);
  await one.kill9();
  // A replica that has never known the previous secret.
  const third = await start({ ...before, credentialSecret: "the new secret" });
  await eventually(async () => {
    // One of the two runs the flows.
    const kept = await Promise.any([third, other].map((service) => read(service, "k")));
    expect(kept).toMatchObject({ stored: { token: "t3" } });
  });
});
