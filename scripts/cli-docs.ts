// Writes docs/cli.md from the help of the commands: `npm run docs`.
import { writeFile } from "node:fs/promises";
import { stripVTControlCharacters } from "node:util";
import type { Command } from "commander";
import { commandPath, createCommandLine } from "../src/cli/command-line.ts";
import type { Program } from "../src/cli/service/program.ts";

export const pageUrl = new URL("../docs/cli.md", import.meta.url);

const introduction = `# Command line

\`flowgate\` is the service and its client. This page is generated from the help of the commands (\`npm run docs\`).

| exit code | meaning |
|---|---|
| 0 | ok |
| 1 | error, wrong usage included |
| 2 | differences were found |
| 3 | conflict: another revision is active than expected |
| 4 | the flows do not run |
| 5 | the flows run, and nodes have errors or the process has ended |
| 130, 143 | ended by SIGINT or SIGTERM |

Errors and progress go to stderr, results to stdout. Where the output is not a terminal, or \`NO_COLOR\` is set, it has no colours
and no progress. \`-o json\` and \`-o yaml\` print the responses of the HTTP API; logs and events as one JSON object in each line.

The server is that of \`--server\` or \`--context\`, else of \`FLOWGATE_SERVER\` or \`FLOWGATE_CONTEXT\`, else the current context, else
\`http://127.0.0.1:8080\`. Contexts and tokens are in \`$XDG_CONFIG_HOME/flowgate/config.yaml\` (\`~/.config\` by default), which only
its user may be able to read; \`$XDG_CACHE_HOME/flowgate\` (\`~/.cache\`) can be deleted at any time. A token is sent only to the
server that issued it. \`FLOWGATE_TOKEN\` is sent only to \`FLOWGATE_SERVER\`, or to any server if that is not set. Without
TLS, tokens and passwords are not sent to other machines unless \`--insecure-allow-http\` permits it, for networks that encrypt by
themselves, such as a service mesh.
`;

const unused = (): never => {
  throw new Error("no command is run");
};

/** The page for the current commands. */
export function formatPage(): string {
  const program: Program = {
    version: unused,
    openGateway: unused,
    migrateStore: unused,
    exit: unused,
  };
  const root = createCommandLine({ ...program, version: () => "" });
  return [introduction, ...describe(root)].join("\n");
}

function describe(command: Command): string[] {
  const heading = `${command.parent === null ? "##" : "###"} \`${commandPath(command)}\``;
  const section = `${heading}\n\n\`\`\`\n${helpOf(command)}\n\`\`\`\n`;
  const commands = command.commands.filter((each) => each.name() !== "complete");
  return [section, ...commands.flatMap(describe)];
}

/** As it is printed where the output is not a terminal. */
function helpOf(command: Command): string {
  let help = "";
  command
    .configureOutput({ writeOut: (text) => (help += text), getOutHelpWidth: () => 100, getOutHasColors: () => false })
    .outputHelp();
  return stripVTControlCharacters(help).trim();
}

if (import.meta.main) {
  await writeFile(pageUrl, formatPage());
}
