import { useState } from "react";

type Action = {
  readonly isBusy: boolean;
  /** Why it has failed; undefined: it has not, or runs again. */
  readonly error: unknown;
  /** Runs the action. Resolves when it has ended, whether it has failed or not. */
  readonly run: (action: () => Promise<unknown>) => Promise<void>;
  /** Forgets why it has failed. */
  readonly reset: () => void;
};

/** The state of something that a user does, one at a time. Its result is not kept, unlike that of a mutation: it can be a secret. */
export function useAction(): Action {
  const [state, setState] = useState<{ readonly isBusy: boolean; readonly error: unknown }>(idle);
  const run = async (action: () => Promise<unknown>): Promise<void> => {
    setState({ isBusy: true, error: undefined });
    try {
      await action();
      setState(idle);
    } catch (error) {
      setState({ isBusy: false, error });
    }
  };
  return { ...state, run, reset: () => setState(idle) };
}

const idle = { isBusy: false, error: undefined };
