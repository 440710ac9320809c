import type { ReactNode } from "react";
import type { DeploymentOutcome, HealthState, RuntimeState } from "@flowgate/client";
import { describeHealth, describeOutcome, describeState, type Tone } from "./describe.ts";

export type { Tone };

/** A short word in colour, such as an outcome. The word alone suffices without the colour. */
export function Sign({ tone, children }: { readonly tone: Tone; readonly children: ReactNode }): ReactNode {
  return (
    <span className="sign" data-tone={tone}>
      {children}
    </span>
  );
}

export function StateSign({ state }: { readonly state: RuntimeState }): ReactNode {
  const [word, tone] = describeState(state);
  return <Sign tone={tone}>{word}</Sign>;
}

export function HealthSign({ state }: { readonly state: HealthState }): ReactNode {
  const [word, tone] = describeHealth(state);
  return <Sign tone={tone}>{word}</Sign>;
}

export function OutcomeSign({ outcome }: { readonly outcome: DeploymentOutcome }): ReactNode {
  const [word, tone] = describeOutcome(outcome);
  return <Sign tone={tone}>{word}</Sign>;
}
