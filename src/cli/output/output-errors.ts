/**
 * Keeps errors of stdout and stderr from ending the process, whose command may be deploying. A reader that closes its pipe early,
 * such as `head`, is no failure; a full disk is one, which the exit code reports.
 */
export function handleOutputErrors(): void {
  const { stdout, stderr } = process;
  stderr.on("error", () => {});
  stdout.on("error", ({ code, message }: NodeJS.ErrnoException) => {
    if (code !== "EPIPE") {
      stderr.write(`flowgate: stdout cannot be written: ${message}\n`);
      process.once("exit", () => (process.exitCode ||= 1));
    }
  });
}
