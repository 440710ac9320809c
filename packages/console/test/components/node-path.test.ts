import { expect, test } from "vitest";
import { nodePath, parseTabPath, tabPath } from "../../src/components/node-path.ts";

test.each([
  ["T", "/flows/T"],
  ["a/b", "/flows/a~2Fb"],
  ["a~2Fb", "/flows/a~7E2Fb"],
  ["50%41/t", "/flows/50%2541~2Ft"],
  ["a%2Fb", "/flows/a%252Fb"],
  ["..", "/flows/~2E~2E"],
  ["a.b?c#d", "/flows/a.b%3Fc%23d"],
])("the tab %s is at %s, also behind a proxy that decodes the path", (id, path) => {
  expect(tabPath(id)).toBe(path);
  const text = path.slice("/flows/".length);
  expect(parseTabPath(text)).toBe(id);
  expect(decodeURIComponent(text)).not.toMatch(/\/|^\.+$/);
  expect(new URL(path, "http://localhost").pathname).toBe(path);
});

test("addresses with an encoded slash are read too, and malformed ones are not", () => {
  expect(parseTabPath("a%2Fb")).toBe("a/b");
  expect(parseTabPath("%")).toBeUndefined();
});

test("a node in a subflow is selected as the instance on its tab", () => {
  expect(nodePath({ flowId: "a/b", nodeId: "n", subflowPath: ["s/1", "t"] })).toBe("/flows/a~2Fb?node=s%2F1");
  expect(nodePath({ flowId: "", nodeId: "n", subflowPath: [] })).toBe("/flows?node=n");
});
