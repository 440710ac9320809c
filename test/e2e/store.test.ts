import { copyFile, mkdir, mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { runCommand } from "../cli/run-command.ts";
import { deploy } from "./deploy.ts";
import { tab } from "./flow-builders.ts";
import { startService, withoutRuntime } from "./service.ts";

test("a store outside of the data directory can be served, backed up and restored by its URL", async () => {
  const folder = await mkdtemp(join(tmpdir(), "flowgate-e2e-store-"));
  try {
    const [dataDir, database, copy] = [join(folder, "data"), join(folder, "db", "flows.db"), join(folder, "copy.db")];
    const store = `sqlite:${database}`;
    {
      await using service = await startService({ dataDir, config: withoutRuntime, env: { FLOWGATE_STORE: store } });
      await deploy(service, { flows: [tab("early")] });
      expect(await runCommand(["backup", copy, "--store", store, "--data-dir", dataDir])).toMatchObject({ code: 0 });
      await deploy(service, { flows: [tab("late")] });
      const refused = await runCommand(["restore", copy, "--store", store, "--data-dir", dataDir]);
      expect(refused.stderr).toContain("another Flowgate runs on the data directory");
    }
    const restored = await runCommand(["restore", copy, "--store", store, "--data-dir", dataDir]);
    expect(restored.stdout).toContain(` The previous store is in ${database}.replaced-1.`);
    expect(await readdir(dataDir)).not.toContain("flowgate.db");
    {
      await using service = await startService({ dataDir, config: { ...withoutRuntime, store } });
      expect((await service.send("GET", "/flows")).json()).toEqual([tab("early")]);
    }
    // A copy can be restored at another path.
    const elsewhere = join(folder, "elsewhere");
    await mkdir(elsewhere, { mode: 0o700 });
    await copyFile(join(dataDir, "credential.key"), join(elsewhere, "credential.key"));
    expect(await runCommand(["restore", copy, "--data-dir", elsewhere])).toMatchObject({ code: 0 });
    await using service = await startService({ dataDir: elsewhere, config: withoutRuntime });
    expect((await service.send("GET", "/flows")).json()).toEqual([tab("early")]);
  } finally {
    await rm(folder, { recursive: true });
  }
});
