import { useState } from "react";

type Action = {
  readonly isBusy: boolean;
  readonly error: unknown;
  readonly run: (action: () => Promise<unknown>) => Promise<void>;
  readonly reset: () => void;
};

/**
 * The state of a user's action, one at a time. Its result is not kept, unlike a mutation's, since it can be a secret.
 */
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
