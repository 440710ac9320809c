import { execFile } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { mkdtemp, mkdtempDisposable, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { settings } from "../../src/cli/option-flags.ts";
import { parseOptions } from "../../src/options/parse.ts";
import { runCli } from "../cli/run-cli.ts";
import { root } from "./stage.ts";

const unit = readFileSync(join(root, "deploy/systemd/flowgate.service"), "utf8");
const isThere = existsSync("/usr/bin/systemd-analyze");
if (!isThere) {
  process.stderr.write("systemd-analyze is not installed: the unit's checks are skipped.\n");
}

/** The output of systemd-analyze for a unit, with its exit code. */
async function analyze(text: string, ...args: string[]): Promise<{ code: number; stderr: string }> {
  const folder = await mkdtemp(join(tmpdir(), "flowgate-unit-"));
  const path = join(folder, "flowgate.service");
  // The program must exist.
  await writeFile(path, text.replace("/usr/local/bin/flowgate", process.execPath));
  try {
    const { stderr } = await promisify(execFile)("/usr/bin/systemd-analyze", [...args, path]);
    return { code: 0, stderr };
  } catch (error) {
    return error as { code: number; stderr: string };
  } finally {
    await rm(folder, { recursive: true });
  }
}

test.runIf(isThere)("systemd accepts every line of the unit", async () => {
  expect(await analyze(unit, "verify")).toMatchObject({ code: 0, stderr: "" });
  const misspelt = await analyze(unit.replace("ProtectHome", "ProtectHomes"), "verify");
  expect(misspelt.stderr).toContain("ProtectHomes");
});

test.runIf(isThere)("the unit restricts the service", async () => {
  // In tenths: an exposure level of 2.3 out of 10.
  const audit = ["security", "--offline=true", "--threshold=23"];
  expect(await analyze(unit, ...audit)).toMatchObject({ code: 0 });
  for (const line of [/^SystemCallFilter=.*\n/gm, /^CapabilityBoundingSet=.*\n/m, /^RestrictNamespaces=.*\n/m]) {
    const softer = unit.replace(line, "");
    expect(softer).not.toBe(unit);
    expect((await analyze(softer, ...audit)).code).not.toBe(0);
  }
});

/** The values of a key, in order. */
function valuesOf(key: string): string[] {
  return [...unit.matchAll(new RegExp(`^${key}=(.*)$`, "gm"))].map(([, value = ""]) => value);
}

const environment = valuesOf("Environment").flatMap((line) =>
  line.split(" ").map((pair) => pair.split("=") as [name: string, value: string]),
);

test("the command of the unit starts the service with its configuration", async () => {
  const [program, ...args] = valuesOf("ExecStart")[0]?.split(" ") ?? [];
  expect(program).toBe("/usr/local/bin/flowgate");
  await using credentials = await mkdtempDisposable(join(tmpdir(), "flowgate-unit-"));
  // The service reads this file, and rejects it.
  await writeFile(join(credentials.path, "flowgate.yaml"), "port: many");
  const specifiers = { d: credentials.path, S: credentials.path };
  const env = Object.fromEntries(
    environment.map(([name, value]) => [
      name,
      value.replaceAll(/%([dS])/g, (_, letter: "d" | "S") => specifiers[letter]),
    ]),
  );
  expect(await runCli(args, { env })).toEqual({
    code: 1,
    stdout: "",
    stderr: `flowgate: ${credentials.path}/flowgate.yaml:1: port: must be a whole number from 0 to 65535\n`,
  });
});

test("the paths and variables of the unit exist", () => {
  const ofLibc = { MALLOC_ARENA_MAX: "2", MALLOC_TRIM_THRESHOLD_: "131072" };
  const known = ["FLOWGATE_CONFIG", ...Object.keys(ofLibc), ...settings.map(({ variable }) => variable)];
  expect(environment.filter(([name]) => !known.includes(name))).toEqual([]);
  const [credential] = valuesOf("LoadCredential")[0]?.split(":") ?? [];
  expect(Object.fromEntries(environment)).toEqual({
    FLOWGATE_CONFIG: `%d/${credential}`,
    FLOWGATE_DATA_DIR: `%S/${valuesOf("StateDirectory")[0]}`,
    ...ofLibc,
  });
});

test("the unit gives the service enough time to drain", () => {
  const { drain, runtime } = parseOptions({});
  const neededMs = drain.delayMs + drain.graceMs + runtime.nodeCloseTimeoutMs;
  expect(Number(valuesOf("TimeoutStopSec")[0]) * 1000).toBeGreaterThan(neededMs);
});

test("the unit allows V8 to compile code", () => {
  expect(valuesOf("MemoryDenyWriteExecute")).toEqual([]);
});

test("the unit allows bubblewrap to isolate the flows, and no other namespaces", () => {
  expect(valuesOf("RestrictNamespaces")).toEqual(["user mnt pid ipc uts"]);
  expect(valuesOf("SystemCallFilter").flatMap((calls) => calls.split(" "))).toEqual(
    expect.arrayContaining(["mount", "umount2", "pivot_root", "capset"]),
  );
  // Each of them covers a part of /proc.
  const covering = ["ProtectKernelTunables", "ProtectKernelLogs", "ProtectHostname", "ProcSubset"];
  expect(covering.flatMap(valuesOf)).toEqual([]);
});
