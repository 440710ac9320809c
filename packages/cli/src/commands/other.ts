import { Argument, type Command } from "commander";
import { defineCommand } from "../define-command.ts";

export function defineOtherCommands(root: Command, version: string): void {
  defineCommand(root, "completion", {
    summary: "print a script that completes commands",
    description: "Print a script with which a shell completes commands, flags, and the names of servers.",
    examples: {
      'eval "$(flowgate completion bash)"': "in ~/.bashrc",
      'eval "$(flowgate completion zsh)"': "in ~/.zshrc, after compinit",
      "flowgate completion fish > ~/.config/fish/completions/flowgate.fish": "once",
    },
    connects: false,
  })
    .addArgument(new Argument("<shell>", "the shell").choices(shells))
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

  defineCommand(root, "version", {
    summary: "print the version",
    description: "Print the version of this program.",
    examples: { "flowgate version": "of this program; flowgate status has that of the service" },
    connects: false,
  }).action(() => {
    process.stdout.write(`${version}\n`);
  });
}

const shells = ["bash", "zsh", "fish"] as const;

/** The functions of the package bash-completion that the script uses, which not all systems have. */
const bashFallback = `declare -F _get_comp_words_by_ref >/dev/null || _get_comp_words_by_ref() {
  words=("\${COMP_WORDS[@]}") cword=$COMP_CWORD cur=\${COMP_WORDS[COMP_CWORD]} prev=\${COMP_WORDS[COMP_CWORD-1]}
}
`;
