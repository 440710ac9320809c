/** Shows on stderr what a command waits for. */
export type Progress = {
  /**
   * Shows a text while this runs, if it takes longer than a second and stderr is a terminal. `update` replaces the text.
   * Within another one, nothing more is shown.
   */
  during<T>(text: string, work: (update: (text: string) => void) => Promise<T>): Promise<T>;
};

const delayMs = 1000;

export function createProgress(
  stream: NodeJS.WriteStream = process.stderr,
  environment: Readonly<Record<string, string | undefined>> = process.env,
): Progress {
  const isShown = stream.isTTY && (environment["NO_COLOR"] ?? "") === "" && environment["TERM"] !== "dumb";
  let isRunning = false;

  return {
    async during(text, work) {
      if (!isShown || isRunning) return work(() => {});
      isRunning = true;
      const spinner = startLater(stream, text);
      try {
        return await work(spinner.update);
      } finally {
        isRunning = false;
        spinner.stop();
      }
    },
  };
}

function startLater(stream: NodeJS.WriteStream, text: string) {
  let shown: { text: string; stop(): unknown } | undefined;
  let isStopped = false;
  const timer = setTimeout(async () => {
    const { default: spinner } = await import("yocto-spinner");
    if (!isStopped) shown = spinner({ stream, text }).start();
  }, delayMs);
  return {
    update(next: string): void {
      text = next;
      if (shown !== undefined) shown.text = next;
    },
    stop(): void {
      isStopped = true;
      clearTimeout(timer);
      shown?.stop();
    },
  };
}
