import { type Command as Completed, RootCommand, ShellCompDirective } from "@bomb.sh/tab";
import type { Argument, Command, Option } from "commander";
import { readClientConfig } from "./client/config.ts";
import { globalOptionsOf } from "./client/connection-flags.ts";

type Values = (complete: (value: string, description: string) => void) => void;

/** Prints what can follow these words, in the form that the scripts of `flowgate completion` read. */
export async function complete(root: Command, words: readonly string[]): Promise<void> {
  const { servers } = await readClientConfig(process.env).catch(() => ({ servers: {} }));
  let areFiles = false;
  const completion = new RootCommand();
  // The shell completes the names of files itself.
  Object.defineProperty(completion, "directive", {
    get: () =>
      areFiles ? ShellCompDirective.ShellCompDirectiveDefault : ShellCompDirective.ShellCompDirectiveNoFileComp,
    set() {},
  });

  const valuesOf = (item: Option | Argument, name: string): Values => {
    return (add) => {
      if (name === "server") {
        for (const [saved, { server }] of Object.entries(servers)) {
          add(saved, server);
        }
      }
      for (const choice of item.argChoices ?? []) {
        add(choice, "");
      }
      areFiles ||= /^(path|file|files|dir|folder)$/.test(name);
    };
  };
  addCommands(root, "", (path, command) => {
    const added: Completed = path === "" ? completion : completion.command(path, command.summary());
    const options = [...command.createHelp().visibleOptions(command), ...globalOptionsOf(command)];
    for (const option of new Set(options)) {
      const { long, short, description } = option;
      const placeholder = /[<[]([\w-]+)/.exec(option.flags)?.[1] ?? "";
      const takesValue = option.required || option.optional;
      const values = valuesOf(option, placeholder === "name" ? option.name() : placeholder);
      const name = long?.slice(2) ?? "";
      const alias = short?.slice(1);
      if (takesValue) {
        added.option(name, description, values, alias);
      } else if (alias === undefined) {
        added.option(name, description);
      } else {
        added.option(name, description, alias);
      }
    }
    for (const argument of command.registeredArguments) {
      added.argument(argument.name(), valuesOf(argument, argument.name()), argument.variadic);
    }
  });
  completion.parse([...words]);
}

function addCommands(command: Command, path: string, add: (path: string, command: Command) => void): void {
  add(path, command);
  for (const each of command.createHelp().visibleCommands(command)) {
    addCommands(each, `${path} ${each.name()}`.trimStart(), add);
  }
}
