import { DeploymentOutcome, type Revision, RuntimeState } from "@flowgate/client";
import { texts as revisionTexts } from "../texts/revision.ts";
import { texts } from "../texts/states.ts";

const { outcomes: words } = revisionTexts;

export type Tone = "good" | "bad" | "warn" | "info" | "neutral";

const states: Readonly<Record<number, readonly [word: string, tone: Tone]>> = {
  [RuntimeState.STARTING]: [texts.states.starting, "info"],
  [RuntimeState.RUNNING]: [texts.states.running, "good"],
  [RuntimeState.FAILED]: [texts.states.failed, "bad"],
  [RuntimeState.RESTARTING]: [texts.states.restarting, "bad"],
  [RuntimeState.SAFE]: [texts.states.safe, "bad"],
  [RuntimeState.STOPPED]: [texts.states.stopped, "warn"],
  [RuntimeState.STANDBY]: [texts.states.standby, "neutral"],
  [RuntimeState.DISABLED]: [texts.states.disabled, "neutral"],
};

/** How a state of the flow runtime is shown. Another version of the service can have other states. */
export function describeState(state: RuntimeState): readonly [word: string, tone: Tone] {
  return states[state] ?? [texts.states.unknown, "neutral"];
}

const outcomes: Readonly<Record<number, readonly [word: string, tone: Tone]>> = {
  [DeploymentOutcome.RUNNING]: [words.running, "good"],
  [DeploymentOutcome.DEGRADED]: [words.degraded, "warn"],
  [DeploymentOutcome.FAILED]: [words.failed, "bad"],
  [DeploymentOutcome.CRASHED]: [words.crashed, "bad"],
  [DeploymentOutcome.PENDING]: [words.pending, "info"],
  [DeploymentOutcome.REPLACED]: [words.replaced, "neutral"],
  [DeploymentOutcome.UNDONE]: [words.undone, "bad"],
  [DeploymentOutcome.STOPPED]: [words.stopped, "warn"],
};

export function describeOutcome(outcome: DeploymentOutcome): readonly [word: string, tone: Tone] {
  return outcomes[outcome] ?? [words.unknown, "neutral"];
}

/** Who has done something: a user and, if it is a named one, the token of the request. */
export function describeCaller({ user, tokenName }: Pick<Revision, "user" | "tokenName">): string {
  const name = user === "" ? texts.someone : user;
  return tokenName === "" ? name : texts.byToken(name, tokenName);
}
