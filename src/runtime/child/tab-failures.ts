export type TabFailures = {
  /** Sets the listener, which is called with the stack of the error if a tab can't be started. */
  onFailure(listener: (stack: string) => void): void;
};

const stackOfTabStart = /^\s+at start \(.*runtime.lib.flows.index\.js/m;

/** Detects that a tab can't be started by intercepting `console.log`, since the runtime only prints the error and continues. */
export function watchTabFailures(): TabFailures {
  let notify: ((stack: string) => void) | undefined;
  const print = console.log; // oxlint-disable-line no-console
  // oxlint-disable-next-line no-console
  console.log = (...values: unknown[]) => {
    const [text] = values;
    if (typeof text === "string" && stackOfTabStart.test(text)) {
      notify?.(text);
    }
    print(...values);
  };
  return {
    onFailure(listener) {
      notify = listener;
    },
  };
}
