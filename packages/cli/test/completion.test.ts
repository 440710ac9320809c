import { spawn } from "node:child_process";
import { mkdtempDisposable } from "node:fs/promises";
import { text } from "node:stream/consumers";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { cliEnvironment, mainPath, runCli } from "../../../test/cli/run-cli.ts";

/** What bash completes the last of these words to. */
async function completions(...words: string[]): Promise<string[]> {
  const program = `
    compopt() { :; }
    flowgate() { "${process.execPath}" "${mainPath}" "$@"; }
    eval "$(flowgate completion bash)"
    COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMP_LINE="$*" COMP_POINT=\${#COMP_LINE}
    __flowgate_complete
    printf '%s\\n' "\${COMPREPLY[@]}"`;
  const bash = spawn("bash", ["--norc", "-c", program, "bash", ...words], { env: cliEnvironment() });
  const [stdout, stderr] = await Promise.all([text(bash.stdout), text(bash.stderr)]);
  expect(stderr).toBe("");
  return stdout
    .trim()
    .split("\n")
    .map((line) => line.trim().split(/\s/)[0] ?? "");
}

test("completes commands, flags and values in bash", async () => {
  expect(await completions("flowgate", "con")).toEqual(["context"]);
  expect(await completions("flowgate", "server", "u")).toEqual(["use"]);
  expect(await completions("flowgate", "get", "")).toEqual(["flows", "flow"]);
  expect(await completions("flowgate", "get", "flows", "--re")).toEqual(["--rev"]);
  expect(await completions("flowgate", "status", "-o", "")).toEqual(["json", "yaml"]);
});

test("completes the names of saved servers", async () => {
  await using folder = await mkdtempDisposable(join(tmpdir(), "flowgate-"));
  const env = { XDG_CONFIG_HOME: folder.path };
  await runCli(["server", "add", "staging", "https://flows.example.com"], { env });
  for (const words of [
    ["status", "--server"],
    ["server", "use"],
  ]) {
    const { stdout } = await runCli(["complete", "--", ...words, ""], { env });
    expect(stdout).toBe("staging\thttps://flows.example.com\n:4\n");
  }
});

test("leaves the names of files to the shell", async () => {
  expect((await runCli(["complete", "--", "backup", ""])).stdout).toBe(":0\n");
  expect((await runCli(["complete", "--", "status", ""])).stdout).toBe(":4\n");
});

test.each(["bash", "zsh", "fish"])("prints a script for %s", async (shell) => {
  const { code, stdout, stderr } = await runCli(["completion", shell]);
  expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
  expect(stdout).toContain("flowgate complete --");
});
