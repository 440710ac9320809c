import { existsSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { expect, test } from "vitest";

const root = new URL("../", import.meta.url);

/** Protections without a test that exists. */
function findUntested(document: string): string[] {
  const [, protections = ""] = /^## Protections\n([^]*?)^## /m.exec(document) ?? [];
  return protections
    .split(/^- (?=\*\*)/m)
    .slice(1)
    .filter((protection) => {
      const links = protection.matchAll(/\]\(((?:test|torture)\/[^)]+)\)/g).map(([, path = ""]) => path);
      const paths = [...links];
      return paths.length === 0 || !paths.every((path) => existsSync(new URL(path, root)));
    })
    .map((protection) => protection.slice(0, 60));
}

test("each protection of SECURITY.md names tests that exist", async () => {
  const document = await readFile(new URL("SECURITY.md", root), "utf8");
  expect(document.match(/^- \*\*.*\*\*/gm)?.length).toBeGreaterThan(10);
  expect(findUntested(document)).toEqual([]);
});

test("a protection without a test, or with one that does not exist, is found", () => {
  const document = `## Protections

- **Kept** by [one](test/security.test.ts).
- **Bare** is not kept.
- **Lost** by [one](test/gone.test.ts), [two](test/security.test.ts).

## Limitations

- **Other** things.
`;
  expect(findUntested(document)).toEqual([
    "**Bare** is not kept.\n",
    "**Lost** by [one](test/gone.test.ts), [two](test/security.te",
  ]);
});
