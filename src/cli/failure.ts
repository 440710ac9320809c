/** An error that ends a command. Its message is printed without a stack. */
export class CliFailure extends Error {
  readonly exitCode: number;

  constructor(message: string, { exitCode = 1, cause }: { readonly exitCode?: number; readonly cause?: unknown } = {}) {
    super(message, { cause });
    this.name = "CliFailure";
    this.exitCode = exitCode;
  }
}

/** The failure for an invalid command line. */
export function usageFailure(message: string): CliFailure {
  return new CliFailure(`${message}\nSee flowgate --help for commands and flags.`, { exitCode: 2 });
}
