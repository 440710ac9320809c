import { spawn } from "node:child_process";
import { text } from "node:stream/consumers";
import { expect, test } from "vitest";
import { cliEnvironment, mainPath, runCli } from "./run-cli.ts";

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
  expect(await completions("flowgate", "get", "")).toEqual(["flows", "flow", "settings", "revision"]);
  expect(await completions("flowgate", "get", "flows", "--re")).toEqual(["--rev"]);
  expect(await completions("flowgate", "status", "-o", "")).toEqual(["json", "yaml"]);
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
