import { mkdtempDisposable, readFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { stripVTControlCharacters } from "node:util";
import { expect, test } from "vitest";
import { verifyPasswords } from "../../src/auth/passwords.ts";
import { parsePasswordHash } from "@flowgate/base/password-hash";
import { runCommand } from "./run-command.ts";
import { atTerminal, needsTerminal } from "./terminal.ts";

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
  const { code, stdout, stderr } = await runCommand(["hash-password"], { input });
  expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
  expect(stdout).toMatch(/^\$argon2id\$\S+\n$/);
  expect(await isHashOf(stdout.trimEnd(), password)).toBe(true);
});

test.each([
  ["", "The password is empty."],
  ["\n", "The password is empty."],
  [Buffer.from([0x70, 0xff, 0x0a]), "The password is not UTF-8."],
])("rejects %j", async (input, message) => {
  expect(await runCommand(["hash-password"], { input })).toEqual({
    code: 1,
    stdout: "",
    stderr: `flowgate: ${message}\n`,
  });
});

const plain = stripVTControlCharacters;

test("prompts twice at a terminal, and never shows what is typed", needsTerminal, async () => {
  const { code, shown } = await atTerminal(
    ["hash-password"],
    [
      ["Password", "s3crex\x7ft\r"],
      ["Again", "s3cret\r"],
    ],
  );
  const [, hash = ""] = /(\$argon2id\$\S+)\r\n$/.exec(plain(shown)) ?? [];
  expect(code).toBe(0);
  expect(shown).not.toMatch(/s3c/);
  expect(await isHashOf(hash, "s3cret")).toBe(true);
});

test("prompts on stderr, so that the output can be redirected", needsTerminal, async () => {
  await using folder = await mkdtempDisposable(join(tmpdir(), "flowgate-"));
  const answers = [
    ["Password", "s3cret\r"],
    ["Again", "s3cret\r"],
  ] as const;
  const { code } = await atTerminal(["hash-password"], answers, { OUT: join(folder.path, "hash") }, '>"$OUT"');
  expect(code).toBe(0);
  expect(await readFile(join(folder.path, "hash"), "utf8")).toMatch(/^\$argon2id\$\S+\n$/);
});

test("rejects two different passwords", needsTerminal, async () => {
  const { code, shown } = await atTerminal(
    ["hash-password"],
    [
      ["Password", "s3cret\r"],
      ["Again", "s3crets\r"],
    ],
  );
  expect(code).toBe(1);
  expect(plain(shown)).toContain("flowgate: The passwords do not match.\r\n");
});

test("exits with 130 on Ctrl-C", needsTerminal, async () => {
  const { code, shown } = await atTerminal(["hash-password"], [["Password", "s3c\x03"]]);
  expect(code).toBe(130);
  expect(shown).not.toContain("flowgate:");
});
