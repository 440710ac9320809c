const exitCodes = { SIGINT: 130, SIGTERM: 143 } as const;

/** Resolves at the first SIGTERM or SIGINT. A second one ends the process at once. */
export function untilSignal(): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  let signalled = false;
  const onSignal = (signal: NodeJS.Signals): void => {
    if (signalled) {
      process.exit(signal === "SIGINT" ? exitCodes.SIGINT : exitCodes.SIGTERM);
    }
    signalled = true;
    resolve();
  };
  process.on("SIGINT", onSignal);
  process.on("SIGTERM", onSignal);
  return promise;
}
