import { existsSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { basename } from "node:path";
import { expect, test } from "vitest";

const root = new URL("../", import.meta.url);

/** Protections without a test that exists. */
function findUntested(document: string): string[] {
  const [, protections = ""] = /^## Protections\n([^]*?)^## /m.exec(document) ?? [];
  return protections
    .split(/^- (?=\*\*)/m)
    .slice(1)
    .filter((protection) => {
      const links = [...protection.matchAll(/\[([^\]]+)\]\(((?:(?:packages\/[^/)]+\/)?test|torture)\/[^)]+)\)/g)];
      return links.length === 0 || !links.every(([, name, path = ""]) => isTest(name, path));
    })
    .map((protection) => protection.slice(0, 60));
}

/** Whether there is such a file, with this name. */
function isTest(name: string | undefined, path: string): boolean {
  return basename(path).replace(/(?:\.test)?\.ts$/, "") === name && existsSync(new URL(path, root));
}

test("each protection of SECURITY.md names tests that exist", async () => {
  const document = await readFile(new URL("SECURITY.md", root), "utf8");
  expect(document.match(/^- \*\*.*\*\*/gm)?.length).toBeGreaterThan(10);
  expect(findUntested(document)).toEqual([]);
});

test("a protection without a test, or with one that does not exist or has another name, is found", () => {
  const document = `## Protections

- **Kept** by [security](test/security.test.ts), [login-contract](test/store/login-contract.ts).
- **Bare** is not kept.
- **Lost** by [gone](test/gone.test.ts), [security](test/security.test.ts).
- **Other** by [login](test/security.test.ts).

## Limitations

- **Other** things.
`;
  expect(findUntested(document)).toEqual([
    "**Bare** is not kept.\n",
    "**Lost** by [gone](test/gone.test.ts), [security](test/secur",
    "**Other** by [login](test/security.test.ts).\n\n",
  ]);
});
