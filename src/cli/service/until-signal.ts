/** How shells report a process that a signal has ended. */
export const signalExitCodes = { SIGINT: 130, SIGTERM: 143 } as const;

type EndingSignal = keyof typeof signalExitCodes;

/** Signals within this time are one request to stop: Ctrl-C signals npm and this process, and npm passes its signal on. */
const repeatMs = 1_000;

/** Resolves with the first SIGTERM or SIGINT. Another one, more than a second later, ends the process immediately. */
export function untilSignal(nowMs = () => performance.now()): Promise<EndingSignal> {
  const { promise, resolve } = Promise.withResolvers<EndingSignal>();
  let firstMs: number | undefined;
  const onSignal = (signal: EndingSignal): void => {
    const signalMs = nowMs();
    firstMs ??= signalMs;
    if (signalMs - firstMs > repeatMs) {
      process.exit(signalExitCodes[signal]);
    }
    resolve(signal);
  };
  process.on("SIGINT", onSignal);
  process.on("SIGTERM", onSignal);
  return promise;
}
