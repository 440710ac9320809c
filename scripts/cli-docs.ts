// Writes docs/cli.md from the definitions of the commands: `npm run docs`.
import { writeFile } from "node:fs/promises";
import { stripVTControlCharacters } from "node:util";
import { type Argument, type Command, Help, type Option } from "commander";
import { commandPath, createCommandLine } from "@flowgate/cli";
import { settings } from "../src/cli/option-flags.ts";
import { createServiceCommands } from "../src/cli/service-commands.ts";
import { unusedProgram } from "../test/cli/unused-program.ts";

export const pageUrl = new URL("../docs/cli.md", import.meta.url);

const introduction = `# Command line

\`flowgate\` is both the service and its client. Without a command, it starts the service. The package
[\`@flowgate/cli\`](../packages/cli/README.md) has the same commands without those that run the service or work with its files.

\`flowgate COMMAND --help\` prints the help of a command with all its examples. This page is a summary that is generated from the same
definitions (\`npm run docs\`). Options of the service are described in [configuration](configuration.md#options).

## Exit codes

| code | meaning |
|---|---|
| 0 | success |
| 1 | error or wrong usage |
| 2 | differences were found |
| 3 | conflict: the active revision is not the expected one |
| 4 | the flows do not run |
| 5 | the flows run, but nodes have errors or the process has ended |
| 130, 143 | ended by SIGINT or SIGTERM |

## Output

- Results go to stdout, errors and progress to stderr.
- Without a terminal, or with \`NO_COLOR\`, there are no colours and no progress.
- \`-o json\` and \`-o yaml\` print the responses of the HTTP API; logs and events are one JSON object per line.

## Servers and tokens

- The first of these that is set selects the server, by its URL or by the name under which it is saved: \`--server\`, \`FLOWGATE_SERVER\`,
  the current server, \`http://127.0.0.1:8080\`.
- Servers and tokens are stored in \`$XDG_CONFIG_HOME/flowgate/config.yaml\` (default \`~/.config\`), which only its user may be able to
  read. \`$XDG_CACHE_HOME/flowgate\` (default \`~/.cache\`) can be deleted at any time.
- A token is sent only to the server that issued it. \`FLOWGATE_TOKEN\` is sent only to \`FLOWGATE_SERVER\`, or to any server if that
  variable is not set.
- Without TLS, tokens and passwords are sent to other machines only with \`--insecure-allow-http\`, for networks that are encrypted by
  other means, such as a service mesh.
`;

/** The page for the current commands. */
export function formatPage(): string {
  const root = createCommandLine({ version: "", service: createServiceCommands(unusedProgram) });
  const commands = withCommands(root).filter((each) => each.name() !== "complete");
  const shared = findShared(commands);
  return [
    introduction,
    `## Connection flags\n\nAll commands that call a server accept these flags.\n\n${fence(itemize(connectionFlags(root)))}`,
    `## Shared flags\n\nSeveral commands list these flags in their synopsis.\n\n${fence(itemize([...shared.values()]))}`,
    ...commands.map((command) => (command === root ? "## Commands\n" : describe(command, shared))),
  ].join("\n");
}

const width = 100;

/** Wraps text at the same width on every machine. */
const help = createHelp();

function createHelp(): Help {
  const help = new Help();
  help.prepareContext({ helpWidth: width });
  return help;
}

/** A flag or an argument. */
type Item = { readonly term: string; readonly description: string };

const keyOf = ({ term, description }: Item): string => `${term} ${description}`;

function withCommands(command: Command): Command[] {
  return [command, ...command.commands.flatMap(withCommands)];
}

const toItem = (option: Option): Item => ({
  term: help.optionTerm(option),
  description: help.optionDescription(option),
});

const optionsOf = (command: Command): Item[] => command.options.filter((option) => !option.hidden).map(toItem);

const connectionFlags = (root: Command): Item[] =>
  root.options.filter((option) => option.long !== "--version").map(toItem);

const argumentsOf = (command: Command): Item[] =>
  help
    .visibleArguments(command)
    .map((argument) => ({ term: help.argumentTerm(argument), description: help.argumentDescription(argument) }));

/** Flags that several commands have with the same description; of several such descriptions, the most frequent one. */
function findShared(commands: readonly Command[]): Map<string, Item> {
  const repeated = Array.from(Map.groupBy(commands.flatMap(optionsOf), keyOf)).filter(([, { length }]) => length > 1);
  const rarestFirst = repeated.toSorted(([, one], [, other]) => one.length - other.length);
  const keyByTerm = new Map(rarestFirst.map(([key, [item]]) => [item?.term, key]));
  return new Map(
    repeated.flatMap(([key, [item]]) => (item !== undefined && keyByTerm.get(item.term) === key ? [[key, item]] : [])),
  );
}

function describe(command: Command, shared: ReadonlyMap<string, Item>): string {
  const path = commandPath(command);
  const heading = `### \`${path}\`\n`;
  const { details, example } = readEnd(command);
  if (command.commands.length > 0) {
    return [heading, fence([help.boxWrap(command.description(), width), ...details].join("\n\n").trimEnd())].join("\n");
  }
  const options = optionsOf(command);
  const items = [
    ...argumentsOf(command),
    ...options.filter((option) => !shared.has(keyOf(option)) && !isServiceOption(option)),
  ];
  const parts = [
    wrapSynopsis([path, ...options.map(({ term }) => `[${term}]`), ...command.registeredArguments.map(argumentTerm)]),
    help.boxWrap(command.description(), width),
    itemize(items),
    ...details,
    `Example: ${example}`,
  ];
  return [heading, fence(parts.filter((part) => part !== "").join("\n\n"))].join("\n");
}

const argumentTerm = (argument: Argument): string => {
  const name = `${argument.name()}${argument.variadic ? "..." : ""}`;
  return argument.required ? `<${name}>` : `[${name}]`;
};

/** docs/configuration.md describes the options of the service. */
const isServiceOption = ({ term }: Item): boolean => settings.some(({ flag }) => term.split(" ")[0] === `--${flag}`);

/** The paragraphs after the flags in the help, and its first example. */
function readEnd(command: Command): { details: string[]; example: string } {
  const written: string[] = [];
  command.configureOutput({ writeOut: (text) => written.push(text), getOutHasColors: () => false }).outputHelp();
  const end = written.slice(1).join("");
  const [details = "", examples = ""] = stripVTControlCharacters(end).split("\nExamples:\n");
  const paragraphs = details.trim().split("\n\n");
  return {
    details: paragraphs.map((text) => (text.startsWith("  ") ? text : help.boxWrap(text.replaceAll("\n", " "), width))),
    example: (examples.split("\n")[0] ?? "").trim().replace(/ +#/, "  #"),
  };
}

function itemize(items: readonly Item[]): string {
  const termWidth = Math.max(0, ...items.map(({ term }) => term.length));
  return items.map(({ term, description }) => help.formatItem(term, termWidth, description, help)).join("\n");
}

/** Breaks lines between flags only. */
function wrapSynopsis(parts: readonly string[]): string {
  const lines = [""];
  for (const part of parts) {
    const line = lines.pop() ?? "";
    const longer = line === "" ? part : `${line} ${part}`;
    lines.push(...(longer.length <= width ? [longer] : [line, `    ${part}`]));
  }
  return lines.join("\n");
}

const fence = (text: string): string => `\`\`\`\n${text}\n\`\`\`\n`;

if (import.meta.main) {
  await writeFile(pageUrl, formatPage());
}
