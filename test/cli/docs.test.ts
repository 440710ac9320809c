import { readFile } from "node:fs/promises";
import { expect, test } from "vitest";
import { formatPage, pageUrl } from "../../scripts/cli-docs.ts";

test("docs/cli.md is current (npm run docs)", async () => {
  expect(await readFile(pageUrl, "utf8")).toBe(formatPage());
});
