import { CliFailure, exitCodes } from "@flowgate/cli";
import { createProgress } from "@flowgate/cli/output";
import type { Program } from "./program.ts";

const signalExitCodes = { SIGINT: exitCodes.interrupted, SIGTERM: exitCodes.terminated } as const;

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

/** Runs work that a signal ends, as `interrupted` says, between two of its steps. Throws a CliFailure that begins with `failed`. */
export async function runInterruptibly<T>(
  exit: Program["exit"],
  { text, failed, interrupted }: { readonly text: string; readonly failed: string; readonly interrupted: string },
  work: (signal: AbortSignal, update: (text: string) => void) => Promise<T>,
): Promise<T> {
  const interruption = new AbortController();
  let exitCode = 1;
  void untilSignal(exit).then((signal) => {
    exitCode = signalExitCodes[signal];
    interruption.abort(new Error(interrupted));
  });
  try {
    // The handler of signals above needs the time until the step has ended.
    return await createProgress({ handleSignals: false }).during(text, (update) => work(interruption.signal, update));
  } catch (error) {
    throw new CliFailure(`${failed}: ${error instanceof Error ? error.message : String(error)}`, { exitCode });
  }
}
