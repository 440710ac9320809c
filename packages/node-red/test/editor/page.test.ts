import { expect, test } from "vitest";
import { escapeHtml } from "../../src/editor/page.ts";

test("texts have no meaning as HTML", () => {
  expect(escapeHtml(`<a href='x' title="y">&\``)).toBe("&#60;a href=&#39;x&#39; title=&#34;y&#34;&#62;&#38;&#96;");
});
