import { glob, readFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { expect, test } from "vitest";

const root = resolve(import.meta.dirname, "../..");

/** Signs of internals: members of Node.js and Node-RED that are not public, replaced functions of theirs, and their files. */
const signs: readonly RegExp[] = [
  /[\w)\]]\??\._[a-z]\w*/,
  /\{ _[a-z]\w*: /,
  /getOwnPropertySymbols\(/,
  /\bprototype(?:\.\w+|\[\w+\]) = /,
  /"node:async_hooks"/,
  /registerHooks\(/,
  /@node-red\/\w+\/lib\/(?!flows\/util\.js)/,
  /\bregistry\.get = /,
  /listeners\("connection"\)/,
  /\bruntime\._\./,
  /\bnodes\.\w+ = async /,
];

/** These have names of other formats that look like internals. */
const formats: ReadonlySet<string> = new Set([
  "packages/cli/src/node-red/user-folder.ts",
  "packages/node-red/src/comms/messages.ts",
]);

function usesInternals(code: string): boolean {
  const statements = code.replaceAll(/^\s*(?:\/\/|\/?\*).*$/gm, "");
  return signs.some((sign) => sign.test(statements));
}

test.each([
  ["const { fd } = socket._handle;", true],
  ["const { _handle: handle } = socket;", true],
  ["Node.prototype.error = function () {};", true],
  ['const nodes = require("@node-red/runtime/lib/nodes");', true],
  ["using _ = lock();\nconst handle = (_message: string) => _message;", false],
  [" * `_handle.fd` of a socket", false],
])("%j: %s", (code, expected) => {
  expect(usesInternals(code)).toBe(expected);
});

test("docs/internals.md lists each file that uses an internal of Node.js or Node-RED, and no others", async () => {
  const page = await readFile(join(root, "docs/internals.md"), "utf8");
  const listed = [...page.matchAll(/\]\(\.\.\/((?:src|packages\/[\w-]+\/src)\/[^)]+\.ts)\)/g)].map(
    ([, file = ""]) => file,
  );
  const found: string[] = [];
  for await (const file of glob(["src/**/*.ts", "packages/*/src/**/*.ts"], { cwd: root })) {
    if (!formats.has(file) && usesInternals(await readFile(join(root, file), "utf8"))) {
      found.push(file);
    }
  }
  expect([...new Set(listed)].toSorted()).toEqual(found.toSorted());
});
