/** The exit codes of commands. */
export const exitCodes = {
  /** Wrong usage included. */
  error: 1,
  /** The two sides of a comparison are not equal. */
  differences: 2,
  /** Another revision is active than the one that was expected. */
  conflict: 3,
  /** The configuration is deployed, but its flows do not run. */
  notRunning: 4,
  /** The configuration is deployed and its flows run, but nodes have errors. */
  degraded: 5,
  /** Ended by SIGINT, as shells report it. */
  interrupted: 130,
  /** Ended by SIGTERM. */
  terminated: 143,
} as const;

/** An error that ends a command. Its message is printed without a stack. */
export class CliFailure extends Error {
  readonly exitCode: number;

  constructor(
    message: string,
    { exitCode = exitCodes.error, cause }: { readonly exitCode?: number; readonly cause?: unknown } = {},
  ) {
    super(message, { cause });
    this.name = "CliFailure";
    this.exitCode = exitCode;
  }
}

/** An invalid command line. The message is printed with a hint at the help of `command`, by default the one that runs. */
export class UsageFailure extends CliFailure {
  readonly command: string | undefined;

  constructor(message: string, command?: string) {
    super(message);
    this.command = command;
  }
}
