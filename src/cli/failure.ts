/** What ends a command: told to the user line by line, without a stack. */
export class CliFailure extends Error {
  readonly exitCode: number;

  constructor(message: string, exitCode = 1) {
    super(message);
    this.name = "CliFailure";
    this.exitCode = exitCode;
  }
}

/** The command line itself is wrong. */
export function usageFailure(message: string): CliFailure {
  return new CliFailure(`${message}\nflowgate --help tells the commands and flags.`, 2);
}
