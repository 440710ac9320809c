import { expect, test } from "vitest";
import { escapeHtml, renderTemplate } from "../../src/editor/page.ts";

test.each([
  ["{{ page.title }}", "a &#60;b&#62;"],
  ["{{{page.title}}}", "a <b>"],
  ["{{#asset.on}}[{{ asset.on }}]{{/asset.on}}", "[yes]"],
  ["{{#asset.off}}[{{ asset.off }}]{{/asset.off}}{{# absent.list }}{{.}}{{/ absent.list }}", ""],
  ["{{#asset.on}}\n1{{/asset.on}}{{#asset.on}}2{{/asset.on}}", "\n12"],
  ["{{# lists.two }}<{{.}}>{{/ lists.two }}{{#lists.none}}{{.}}{{/lists.none}}", "<a&#60;><b>"],
  ["{{ absent.deep }}", ""],
])("%j becomes %j", (template, expected) => {
  const values = { page: { title: "a <b>" }, asset: { on: "yes", off: "" }, lists: { two: ["a<", "b"], none: [] } };
  expect(renderTemplate(template, values)).toBe(expected);
});

test("texts have no meaning as HTML", () => {
  expect(escapeHtml(`<a href='x' title="y">&\``)).toBe("&#60;a href=&#39;x&#39; title=&#34;y&#34;&#62;&#38;&#96;");
});
