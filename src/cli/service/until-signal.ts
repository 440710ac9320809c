/** How shells report a process that a signal has ended. */
export const signalExitCodes = { SIGINT: 130, SIGTERM: 143 } as const;

type EndingSignal = keyof typeof signalExitCodes;

/** Resolves with the first SIGTERM or SIGINT. A second one ends the process at once. */
export function untilSignal(): Promise<EndingSignal> {
  const { promise, resolve } = Promise.withResolvers<EndingSignal>();
  let signalled = false;
  const onSignal = (signal: EndingSignal): void => {
    if (signalled) {
      process.exit(signalExitCodes[signal]);
    }
    signalled = true;
    resolve(signal);
  };
  process.on("SIGINT", onSignal);
  process.on("SIGTERM", onSignal);
  return promise;
}
