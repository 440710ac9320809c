import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempDisposable, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { openStore } from "../../src/store/open-store.ts";
import { exitCode } from "./run-cli.ts";
import { runCommand } from "./run-command.ts";

const fixture = fileURLToPath(new URL("./migrate-fixture.ts", import.meta.url));

test("copies the configured store with the key of its data directory, and prints what was copied", async () => {
  await using folder = await mkdtempDisposable(join(tmpdir(), "flowgate-"));
  const [dataDir, to] = [join(folder.path, "data"), `sqlite:${folder.path}/new/flowgate.db`];
  await (await openStore({ dataDir }))[Symbol.asyncDispose]();
  const args = ["migrate", "--to", to, "--data-dir", dataDir];
  expect(await runCommand(args)).toEqual({
    code: 0,
    stdout:
      `Copied and checked (revisions: 1, tokens: 0, audit entries: 0). The credentials are encrypted with ${dataDir}/credential.key.\n` +
      "Start the service with the new store. The previous one was not changed: keep it until the service runs, and remove it then.\n",
    stderr: "",
  });
  expect(await runCommand(args)).toEqual({
    code: 1,
    stdout: "",
    stderr:
      `flowgate: The migration failed: the destination can't be used: ${folder.path}/new/flowgate.db has data, which would be ` +
      "overwritten: name another file, or move this one away, with its -wal file if there is one.\n",
  });
});

test("names the flag of an invalid URL, and requires the credentialSecret of PostgreSQL", async () => {
  await using folder = await mkdtempDisposable(join(tmpdir(), "flowgate-"));
  const config = join(folder.path, "flowgate.yaml");
  await writeFile(config, "store: postgres://ada:hunter2@127.0.0.1:1/flows\n");
  const [url, secret] = [
    "must be a URL such as sqlite:/var/lib/flowgate/flowgate.db",
    "credentialSecret: must be set for a PostgreSQL store, since all replicas need the same key: set a long random secret",
  ];
  const failures: [args: string[], stderr: string][] = [
    [["--from", "flowgate.db"], `--from: ${url}`],
    [["--from", "sqlite:a", "--to", "flowgate.db"], `--to: ${url}`],
    [["--from", "sqlite:a", "--config", config], `${config}:1: ${secret}`],
    [["--to", "postgres://a:hunter2@h/d"], secret],
  ];
  const outcomes = await Promise.all(failures.map(([args]) => runCommand(["migrate", ...args], { cwd: folder.path })));
  expect(outcomes).toEqual(failures.map(([, stderr]) => ({ code: 1, stdout: "", stderr: `flowgate: ${stderr}\n` })));
});

test.each([
  ["SIGINT", 130],
  ["SIGTERM", 143],
] as const)("ends at %s with %i", async (signal, code) => {
  const child = spawn(process.execPath, [fixture, "migrate", "--from", "sqlite:some.db"]);
  await once(child.stdout, "data");
  child.kill(signal);
  const [exit, stderr] = await Promise.all([exitCode(child), text(child.stderr)]);
  expect({ exit, stderr }).toEqual({
    exit: code,
    stderr: "flowgate: The migration failed: it was interrupted, and nothing was copied\n",
  });
});
