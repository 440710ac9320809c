import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import pino from "pino";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { endLeftovers, noteProcess } from "../src/leftover.ts";
import { runtimeUnderTest } from "./builders.ts";
import { onLinux } from "../../../test/needs.ts";

const log = pino({ level: "silent" });

describe("a process that is noted in a file", onLinux, () => {
  let directory: string;
  beforeAll(async () => {
    directory = await mkdtemp(join(tmpdir(), "flowgate-leftover-"));
  });
  afterAll(() => rm(directory, { recursive: true }));

  /** A process that runs until it is killed, and a file with its note, changed by `change`. */
  async function leave(
    change: (note: string) => string = (note) => note,
  ): Promise<{ child: ChildProcess; file: string }> {
    const child = spawn(process.execPath, ["-e", "process.stdin.resume()"], { detached: true, stdio: "pipe" });
    const file = join(directory, String(child.pid));
    noteProcess(file, child.pid ?? 0);
    await writeFile(file, change(await readFile(file, "latin1")));
    return { child, file };
  }

  test("is ended", async () => {
    const { child, file } = await leave();
    const exited = once(child, "exit");
    await endLeftovers(file, log);
    expect(await exited).toEqual([null, "SIGKILL"]);
  });

  test.each<[string, (note: string) => string]>([
    ["start time", (note) => note.replace(/^(\d+) (\d+)/, (_, pid, time) => `${pid} ${Number(time) - 1}`)],
    ["namespace", (note) => note.replace(/pid:\[\d+\]/, "pid:[1]")],
    ["boot", (note) => note.replace(/[\da-f](?=\n$)/, (digit) => (digit === "0" ? "1" : "0"))],
    ["number alone", (note) => note.replace(/ .*/s, "")],
  ])("is not ended if it is another one by its %s", async (_, change) => {
    const { child, file } = await leave(change);
    await endLeftovers(file, log);
    // Its input ends only now.
    child.stdin?.end();
    expect(await once(child, "exit")).toEqual([0, null]);
  });

  test.each(["", "0", "-1", "1", "no note"])("is nothing to end if the file contains %j", async (content) => {
    const file = join(directory, "note");
    await writeFile(file, content);
    await expect(endLeftovers(file, log)).resolves.toBeUndefined();
  });

  test("is the flow runtime's", async () => {
    const processFile = join(directory, "runtime");
    await using runtime = await runtimeUnderTest({ processFile, isolate: "off" });
    await runtime.untilState("running");
    expect(await readFile(processFile, "latin1")).toMatch(new RegExp(`^${runtime.processId()} \\d+ pid:\\[\\d+\\] `));
    await endLeftovers(processFile, log);
    await runtime.untilLogged(/it was ended by SIGKILL/);
  });
});
