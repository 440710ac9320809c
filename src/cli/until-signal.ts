const exitCodes = { SIGINT: 130, SIGTERM: 143 } as const;

/** Resolves with the first SIGTERM or SIGINT. A second one ends the process at once. */
export function untilSignal(): Promise<NodeJS.Signals> {
  const { promise, resolve } = Promise.withResolvers<NodeJS.Signals>();
  let signalled = false;
  const onSignal = (signal: NodeJS.Signals): void => {
    if (signalled) {
      process.exit(signal === "SIGINT" ? exitCodes.SIGINT : exitCodes.SIGTERM);
    }
    signalled = true;
    resolve(signal);
  };
  process.on("SIGINT", onSignal);
  process.on("SIGTERM", onSignal);
  return promise;
}
