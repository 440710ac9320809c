import { chmod, chown, copyFile, mkdir, mkdtemp, readdir, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { mainPath, runCli, type Outcome } from "../cli/run-cli.ts";
import { runCommand } from "../cli/run-command.ts";
import { deploy } from "./deploy.ts";
import { installReporter, tab, reporter } from "./flow-builders.ts";
import { isMissing, run as program } from "./program.ts";
import { bearer, v2 } from "./rest.ts";
import { startService, withoutRuntime } from "./service.ts";
import { login, user } from "./users.ts";

const config = { adminAuth: { users: [user("admin", "*")] } };

async function createFolder(): Promise<AsyncDisposable & { at: (name: string) => string }> {
  const path = await mkdtemp(join(tmpdir(), "flowgate-backup-"));
  return { at: (name) => join(path, name), [Symbol.asyncDispose]: () => rm(path, { recursive: true }) };
}

const run = (command: string, file: string, dataDir: string): Promise<Outcome> =>
  runCommand([command, file, "--data-dir", dataDir]);

/** Has the data directory of a service that has ended, and a backup that was made before. */
let kept: Awaited<ReturnType<typeof createFolder>>;
beforeAll(async () => {
  kept = await createFolder();
  await using service = await startService({ dataDir: kept.at("data"), config: withoutRuntime });
  await deploy(service, { flows: [tab("kept")] });
  await run("backup", kept.at("kept.db"), service.dataDir);
});
afterAll(() => kept?.[Symbol.asyncDispose]());

test("a backup made under load can be restored elsewhere, with credentials and without tokens", async () => {
  await using folder = await createFolder();
  const file = folder.at("backup.db");
  const dataDir = folder.at("restored");
  let before: unknown;
  let token = "";
  {
    await using service = await startService({ config, prepare: installReporter });
    token = await login(service, {});
    const headers = bearer(token);
    const flows = [tab("T"), reporter("a", "T", { n: 1 })];
    await deploy(service, { flows, credentials: { a: { password: "the secret" } } }, "full", headers);
    before = (await service.send("GET", "/flows", { headers: { ...headers, ...v2 } })).json();

    const over = new AbortController();
    const load = (async () => {
      let others = 0;
      for (; !over.signal.aborted; others++) {
        // Each deployment creates a revision; the flows stay the same.
        await deploy(service, { flows }, "nodes", headers);
      }
      return others;
    })();
    const outcome = await run("backup", file, service.dataDir);
    over.abort();
    expect(await load).toBeGreaterThan(0);
    expect(outcome).toMatchObject({ code: 0, stderr: "" });
    expect(outcome.stdout).toContain("credential.key");

    await mkdir(dataDir, { mode: 0o700 });
    await copyFile(join(service.dataDir, "credential.key"), join(dataDir, "credential.key"));
    expect((await stat(file)).mode & 0o777).toBe(0o600);
    expect(await readdir(folder.at("."))).not.toContain("backup.db-wal");
  }
  expect(await run("restore", file, dataDir)).toMatchObject({ code: 0, stderr: "" });
  await installReporter(dataDir);
  await using restored = await startService({ config, dataDir });
  expect((await restored.send("GET", "/flows", { headers: bearer(token) })).status).toBe(401);
  const headers = bearer(await login(restored, {}));
  expect((await restored.send("GET", "/flows", { headers: { ...headers, ...v2 } })).json()).toMatchObject({
    flows: (before as { flows: unknown }).flows,
  });
  expect(JSON.parse(await restored.get("/reporter", headers))).toMatchObject({
    credentials: { "the a": { password: "the secret" } },
  });
});

test("restoring keeps the previous store, and is rejected while a service uses it", async () => {
  await using folder = await createFolder();
  const dataDir = folder.at("data");
  const early = folder.at("early.db");
  const flowsOf = async (): Promise<unknown> => {
    await using service = await startService({ dataDir, config: withoutRuntime });
    return (await service.send("GET", "/flows")).json();
  };
  {
    await using service = await startService({ dataDir, config: withoutRuntime });
    await deploy(service, { flows: [tab("early")] });
    await run("backup", early, dataDir);
    await deploy(service, { flows: [tab("late")] });
    const refused = await run("restore", early, dataDir);
    expect(refused).toMatchObject({ code: 1, stdout: "" });
    expect(refused.stderr).toContain("another Flowgate runs on the data directory");
  }
  const { stdout } = await run("restore", early, dataDir);
  expect(stdout).toContain(` The previous store is in ${dataDir}/flowgate.db.replaced-1.`);
  expect(await flowsOf()).toEqual([tab("early")]);

  // The replaced store can be restored like any backup.
  const again = await run("restore", `${dataDir}/flowgate.db.replaced-1`, dataDir);
  expect(again.stdout).toContain(` The previous store is in ${dataDir}/flowgate.db.replaced-2.`);
  expect(await flowsOf()).toEqual([tab("late")]);
  expect(await run("restore", `${dataDir}/flowgate.db.replaced-2`, dataDir)).toMatchObject({ code: 0 });
  expect(await flowsOf()).toEqual([tab("early")]);
});

/** User ids of the service and of an unrelated user. */
const [own, other] = [65532, 65533];

test.skipIf(isMissing("restoring as root", process.getuid?.() === 0))(
  "files restored by root belong to the service, and other users can't restore its data directory",
  async () => {
    await using folder = await createFolder();
    const [file, dataDir] = [folder.at("backup.db"), folder.at("data")];
    await copyFile(kept.at("kept.db"), file);
    await mkdir(dataDir);
    await chmod(folder.at("."), 0o755);
    await chmod(dataDir, 0o777);
    await chmod(file, 0o644);
    await chown(dataDir, own, own);

    const asOther = await runCli(["restore", file, "--data-dir", dataDir], { uid: other, gid: other });
    expect(asOther).toEqual({
      code: 1,
      stdout: "",
      stderr: `flowgate: The restore failed: ${dataDir} belongs to the user ${own}: run this as that user, or as root.\n`,
    });
    const weak = ["--bounding-set", "-chown", process.execPath, mainPath, "restore", file, "--data-dir", dataDir];
    expect((await program("setpriv", ...weak)).stderr).toContain(
      `root can't change the owner of files to the user ${own}, who owns ${dataDir}: run this as that user.`,
    );
    expect(await readdir(dataDir)).toEqual([]);

    for (let round = 0; round < 2; round += 1) {
      expect(await run("restore", file, dataDir)).toMatchObject({ code: 0, stderr: "" });
    }
    const files = await readdir(dataDir);
    expect(files.toSorted()).toEqual(["flowgate.db", "flowgate.db.replaced-1", "flowgate.lock"]);
    for (const name of files) {
      expect(await stat(join(dataDir, name))).toMatchObject({ uid: own, gid: own });
    }
    // The user of the service can lock and read the restored store.
    expect(
      await runCli(["restore", `${dataDir}/flowgate.db`, "--data-dir", dataDir], { uid: own, gid: own }),
    ).toMatchObject({ code: 0 });
  },
);

test("a failed copy is reported, and changes nothing", async () => {
  await using folder = await createFolder();
  const { at } = folder;
  const dataDir = kept.at("data");
  await writeFile(at("text.db"), "this is no database, but long enough to be read as one".repeat(100));
  const failures: [command: string, file: string, message: string][] = [
    [
      "backup",
      at("nowhere/copy.db"),
      `the directory ${at("nowhere")} does not exist: create it, or name another file.`,
    ],
    ["backup", at("text.db"), `${at("text.db")} already exists: move it away, or name another file.`],
    ["restore", at("none.db"), `${at("none.db")} does not exist: name a file created by flowgate backup`],
    [
      "restore",
      at("text.db"),
      `${at("text.db")} is not a SQLite database, or is damaged: restore it from a backup, or use another file.`,
    ],
  ];
  for (const [command, file, message] of failures) {
    expect(await run(command, file, dataDir)).toEqual({
      code: 1,
      stdout: "",
      stderr: `flowgate: The ${command} failed: ${message}\n`,
    });
  }
  expect((await readdir(dataDir)).filter((name) => /replaced|restored/.test(name))).toEqual([]);
  expect((await run("backup", at("new.db"), at("nowhere"))).stderr).toContain(
    `${at("nowhere")}/flowgate.db does not exist`,
  );
  await using service = await startService({ dataDir, config: withoutRuntime });
  expect((await service.send("GET", "/flows")).json()).toEqual([tab("kept")]);
});
