import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { root } from "../packaging/stage.ts";

const sources = globSync("src/**/*.ts", { cwd: root })
  .map((path) => readFileSync(join(root, path), "utf8"))
  .join("\n");

/** The messages in the tables of log messages of a document that the service does not log. */
function findUnknown(document: string): string[] {
  const tables = document.matchAll(/^\| message \| meaning \|\n\|.*\n((?:\|.*\n)+)/gm);
  const messages = [...tables].flatMap(([, rows = ""]) =>
    [...rows.matchAll(/^\| `([^`]+)`/gm)].map(([, text = ""]) => text),
  );
  expect(messages).not.toEqual([]);
  return messages.filter((message) => !sources.includes(`"${message}"`));
}

test("docs/operations.md describes log messages that the service has", () => {
  expect(findUnknown(readFileSync(join(root, "docs/operations.md"), "utf8"))).toEqual([]);
});

test("a log message that the service does not have is found", () => {
  const table = "| message | meaning |\n|---|---|\n| `changed users are in force` | |\n| `no such message` | |\n";
  expect(findUnknown(table)).toEqual(["no such message"]);
});
