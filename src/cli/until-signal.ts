import { exitCodes } from "@flowgate/cli";
import type { Program } from "./program.ts";

export const signalExitCodes = { SIGINT: exitCodes.interrupted, SIGTERM: exitCodes.terminated } as const;

type EndingSignal = keyof typeof signalExitCodes;

/** Signals within this time are one request to stop: Ctrl-C signals npm and this process, and npm passes its signal on. */
const repeatMs = 1_000;

/** Resolves with the first SIGTERM or SIGINT. Another one, more than a second later, ends the process immediately, with `exit`. */
export function untilSignal(exit: Program["exit"], nowMs = () => performance.now()): Promise<EndingSignal> {
  const { promise, resolve } = Promise.withResolvers<EndingSignal>();
  let firstMs: number | undefined;
  const onSignal = (signal: EndingSignal): void => {
    const signalMs = nowMs();
    firstMs ??= signalMs;
    if (signalMs - firstMs > repeatMs) {
      exit(signalExitCodes[signal]);
    }
    resolve(signal);
  };
  process.on("SIGINT", onSignal);
  process.on("SIGTERM", onSignal);
  return promise;
}
