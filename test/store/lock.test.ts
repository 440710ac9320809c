import { execFile } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { mainPath } from "../cli/run-cli.ts";
import { lockDataDir } from "../../src/store/lock.ts";

test("a data directory can only be locked once, until the lock is disposed", async () => {
  const dataDir = await mkdtemp(join(tmpdir(), "flowgate-lock-"));
  try {
    const lock = lockDataDir(dataDir);
    expect(() => lockDataDir(dataDir)).toThrow(/^another Flowgate runs on the data directory .*: stop it, or choose/);
    const second = promisify(execFile)(process.execPath, [
      mainPath,
      "--port",
      "0",
      "--runtime-port",
      "0",
      "--data-dir",
      dataDir,
    ]);
    await expect(second).rejects.toMatchObject({
      code: 1,
      stderr: expect.stringMatching(/^flowgate: Flowgate cannot start: another Flowgate runs on the data directory/),
    });
    lock[Symbol.dispose]();
    lockDataDir(dataDir)[Symbol.dispose]();
  } finally {
    await rm(dataDir, { recursive: true });
  }
});
