import type { Procedure } from "./calls.ts";

// What the runtime process can be asked for. Flows can forge each result.

export type InjectArgument = {
  readonly id: string;
  /** Properties of the message; undefined: none. */
  readonly message?: Readonly<Record<string, unknown>> | undefined;
};

const injectResults = ["received", "no_input", "unknown"] as const;

/** `no_input`: the node receives no messages; `unknown`: no such node runs. */
export type InjectResult = (typeof injectResults)[number];

/** Makes an inject node send its message, with these properties instead of its own. Another node receives a message with them. */
export const injectNode: Procedure<InjectArgument, InjectResult> = {
  name: "inject",
  parse: (result) => injectResults.find((each) => each === result),
};
