import { spawn, spawnSync } from "node:child_process";
import { expect, test } from "vitest";
import { parsePasswordHash, verifyPasswords } from "../../src/auth/passwords.ts";
import { exitCode, mainPath, runCli } from "./run-cli.ts";

async function isHashOf(text: string, password: string): Promise<boolean> {
  const hash = parsePasswordHash(text);
  return hash !== undefined && (await verifyPasswords(password, [hash]))[0] === true;
}

test.each([
  ["s3cret pä$$", "s3cret pä$$"],
  ["s3cret\n", "s3cret"],
  ["s3cret\r\n", "s3cret"],
  [" s3cret \nanother\n", " s3cret "],
])("prints the hash of one line from a pipe: %j", async (input, password) => {
  const { code, stdout, stderr } = await runCli(["hash-password"], { input });
  expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
  expect(stdout).toMatch(/^\$argon2id\$\S+\n$/);
  expect(await isHashOf(stdout.trimEnd(), password)).toBe(true);
});

test.each([
  ["", "The password is empty."],
  ["\n", "The password is empty."],
  [Buffer.from([0x70, 0xff, 0x0a]), "The password is not UTF-8."],
])("rejects %j", async (input, message) => {
  expect(await runCli(["hash-password"], { input })).toEqual({ code: 1, stdout: "", stderr: `flowgate: ${message}\n` });
});

const script = spawnSync("script", ["--version"], { encoding: "utf8" });
const hasTerminal = script.error === undefined && script.stdout.includes("util-linux");
if (!hasTerminal) {
  process.stderr.write("skipped: hash-password at a terminal needs `script` of util-linux, which is not here\n");
}

/** Types each line at its prompt in a pseudo-terminal. Returns the output of the terminal. */
async function atTerminal(answers: readonly [prompt: string, typed: string][]) {
  const command = `'${process.execPath}' '${mainPath}' hash-password`;
  const terminal = spawn("script", ["--quiet", "--return", "--echo", "never", "--command", command, "/dev/null"], {
    env: { PATH: process.env["PATH"], TERM: "dumb", SHELL: "/bin/sh" },
  });
  let shown = "";
  let from = 0;
  const left = [...answers];
  terminal.stdout.on("data", (chunk: Buffer) => {
    shown += chunk.toString();
    const [prompt, typed] = left[0] ?? [];
    if (prompt !== undefined && shown.includes(prompt, from)) {
      from = shown.length;
      left.shift();
      terminal.stdin.write(typed ?? "");
    }
  });
  const code = await exitCode(terminal);
  return { code, shown };
}

test.skipIf(!hasTerminal)("prompts twice at a terminal, without echo", async () => {
  const { code, shown } = await atTerminal([
    ["Password: ", "s3crex\x7ft\r"],
    ["Again: ", "wrong\x15s3cret\r"],
  ]);
  const [, hash = ""] = /^Password: \r\nAgain: \r\n(\$argon2id\$\S+)\r\n$/.exec(shown) ?? [];
  expect(code).toBe(0);
  expect(await isHashOf(hash, "s3cret")).toBe(true);
});

test.skipIf(!hasTerminal)("accepts both lines pasted at once", async () => {
  const { code, shown } = await atTerminal([["Password: ", "s3cret\rs3cret\r"]]);
  expect({ code, shown }).toEqual({ code: 0, shown: expect.stringMatching(/Again: \r\n\$argon2id\$\S+\r\n$/) });
});

test.skipIf(!hasTerminal)("rejects two different passwords", async () => {
  const { code, shown } = await atTerminal([
    ["Password: ", "s3cret\r"],
    ["Again: ", "s3crets\r"],
  ]);
  expect({ code, shown }).toEqual({
    code: 1,
    shown: "Password: \r\nAgain: \r\nflowgate: The passwords do not match.\r\n",
  });
});

test.skipIf(!hasTerminal)("exits with 130 on Ctrl-C", async () => {
  const { code, shown } = await atTerminal([["Password: ", "s3c\x03"]]);
  expect({ code, shown }).toEqual({ code: 130, shown: "Password: " });
});
