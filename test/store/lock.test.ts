import { execFile } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { lockDataDir } from "../../src/store/lock.ts";

const program = new URL("../../src/cli/main.ts", import.meta.url).pathname;

test("a data directory can only be locked once, until the lock is disposed", async () => {
  const dataDir = await mkdtemp(join(tmpdir(), "flowgate-lock-"));
  try {
    const lock = lockDataDir(dataDir);
    expect(() => lockDataDir(dataDir)).toThrow(/^another Flowgate runs on the data directory .*: stop it, or choose/);
    const second = promisify(execFile)(process.execPath, [
      program,
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
