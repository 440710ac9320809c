import { Argument, type Command } from "commander";
import { withoutServer } from "../client/connection-flags.ts";
import { examples } from "../help.ts";
import type { Program } from "../service/program.ts";

const shells = ["bash", "zsh", "fish"] as const;

/** What the script uses of the package bash-completion, which not all systems have. */
const bashFallback = `declare -F _get_comp_words_by_ref >/dev/null || _get_comp_words_by_ref() {
  words=("\${COMP_WORDS[@]}") cword=$COMP_CWORD cur=\${COMP_WORDS[COMP_CWORD]} prev=\${COMP_WORDS[COMP_CWORD-1]}
}
`;

export function defineCompletion(root: Command): void {
  withoutServer(root.command("completion"))
    .summary("print a script that completes commands")
    .description("Print a script with which a shell completes commands, flags, and the names of contexts.")
    .addArgument(new Argument("<shell>", "the shell").choices(shells))
    .addHelpText(
      "after",
      examples(
        ['eval "$(flowgate completion bash)"', "in ~/.bashrc"],
        ['eval "$(flowgate completion zsh)"', "in ~/.zshrc, after compinit"],
        ["flowgate completion fish > ~/.config/fish/completions/flowgate.fish", "once"],
      ),
    )
    .action(async (shell: string) => {
      const { script } = await import("@bomb.sh/tab");
      if (shell === "bash") {
        process.stdout.write(bashFallback);
      }
      script(shell, "flowgate", "flowgate");
    });

  // Called by these scripts.
  root
    .command("complete", { hidden: true })
    .argument("[words...]")
    .allowUnknownOption()
    .helpOption(false)
    .action(async (words: readonly string[]) => {
      const { complete } = await import("../complete.ts");
      await complete(root, words);
    });
}

export function defineVersion(root: Command, { version }: Program): void {
  withoutServer(root.command("version"))
    .summary("print the version")
    .description("Print the version of this program.")
    .addHelpText("after", examples(["flowgate version", "of this program; flowgate status has that of the service"]))
    .action(() => {
      process.stdout.write(`${version()}\n`);
    });
}
