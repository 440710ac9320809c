/** Shows on stderr what a command waits for. */
export type Progress = {
  /**
   * Shows a text while this runs, if it takes longer than a second and stderr is a terminal. `update` replaces the text.
   * Within another one, nothing more is shown.
   */
  during<T>(text: string, work: (update: (text: string) => void) => Promise<T>): Promise<T>;
};

const delayMs = 1000;

/** `handleSignals`: whether SIGINT and SIGTERM end the process while something is shown; false: the command handles them. */
export function createProgress({ handleSignals = true } = {}): Progress {
  const stream = process.stderr;
  const { NO_COLOR = "", TERM } = process.env;
  const isShown = stream.isTTY && NO_COLOR === "" && TERM !== "dumb";
  let isRunning = false;

  return {
    async during(text, work) {
      if (!isShown || isRunning) {
        return work(() => {});
      }
      isRunning = true;
      const spinner = startLater({ stream, text, handleSignals });
      try {
        return await work(spinner.update);
      } finally {
        isRunning = false;
        spinner.stop();
      }
    },
  };
}

function startLater(options: { stream: NodeJS.WriteStream; text: string; handleSignals: boolean }) {
  let { text } = options;
  let shown: { text: string; stop(): unknown } | undefined;
  let isStopped = false;
  const show = async (): Promise<void> => {
    const { default: spinner } = await import("yocto-spinner");
    if (!isStopped) {
      shown = spinner({ ...options, text }).start();
    }
  };
  const timer = setTimeout(() => void show(), delayMs);
  return {
    update: (next: string): void => {
      text = next;
      if (shown !== undefined) {
        shown.text = next;
      }
    },
    stop: (): void => {
      isStopped = true;
      clearTimeout(timer);
      shown?.stop();
    },
  };
}
