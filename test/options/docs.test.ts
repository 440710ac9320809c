import { readFile } from "node:fs/promises";
import { expect, test } from "vitest";
import { pageUrl, withOptions } from "../../scripts/option-docs.ts";

test("docs/configuration.md is current (npm run docs)", async () => {
  const page = await readFile(pageUrl, "utf8");
  expect(withOptions(page)).toBe(page);
});

test("the list of the options is replaced as a whole", async () => {
  const page = await readFile(pageUrl, "utf8");
  const changed = page.replace(/^- \*\*`host`.*$/m, "- **`host`**: old\n- **`gone`**: old");
  expect(changed).not.toBe(page);
  expect(withOptions(changed)).toBe(page);
});
