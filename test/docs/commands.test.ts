import { readFile } from "node:fs/promises";
import { join } from "node:path";
import type { Command } from "commander";
import { expect, test } from "vitest";
import { createCommandLine } from "@flowgate/cli";
import { createServiceCommands } from "../../src/cli/service-commands.ts";
import { unusedProgram } from "../cli/unused-program.ts";
import { root } from "../packaging/stage.ts";

const documents = [
  "README.md",
  "docs/tutorial.md",
  "docs/node-red.md",
  "examples/git-push/README.md",
  "examples/git-push/drift.sh",
  "examples/github-actions/.github/workflows/flows.yaml",
  "examples/gitlab-ci/.gitlab-ci.yml",
];

const commandLine = createCommandLine({ version: "", service: createServiceCommands(unusedProgram) });

/** What a command line such as `flowgate audit verify --seq 1` names and does not exist. */
function findUnknown(line: string): string[] {
  const words = line.split(/\s+/).map((word) => word.replace(/[.,;:)'"]+$/, ""));
  let command: Command = commandLine;
  const unknown: string[] = [];
  for (const word of words.filter((word) => /^--?[a-z]|^[a-z][a-z-]*$/.test(word))) {
    const next = command.commands.find((each) => each.name() === word || each.aliases().includes(word));
    if (next !== undefined) {
      command = next;
    } else if (word.startsWith("-") && !hasOption(command, word)) {
      unknown.push(word);
    } else if (command === commandLine && !word.startsWith("-")) {
      unknown.push(word);
    }
  }
  return unknown;
}

function hasOption(command: Command, flag: string): boolean {
  return [...command.options, ...commandLine.options].some(({ short, long }) => flag === short || flag === long);
}

test.each(documents)("%s names only commands and flags that exist", async (path) => {
  const text = await readFile(join(root, path), "utf8");
  const lines = [...text.replaceAll(/\\\n\s*/g, "").matchAll(/\bflowgate ([a-z-][^`\n|;>#&()]*)/g)].map(
    ([, line = ""]) => line,
  );
  expect(lines.length).toBeGreaterThan(0);
  expect(lines.filter((line) => findUnknown(line).length > 0)).toEqual([]);
});

test("finds commands and flags that do not exist", () => {
  expect(findUnknown("deploy flows.yaml --wait 2 --yes")).toEqual([]);
  expect(findUnknown("deploy flows.yaml --waits 2")).toEqual(["--waits"]);
  expect(findUnknown("deplay flows.yaml")).toEqual(["deplay"]);
});
