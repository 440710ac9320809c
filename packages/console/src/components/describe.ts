import { type Condition, DeploymentOutcome, HealthState, type Revision, RuntimeState } from "@flowgate/client";
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

export function describeState(state: RuntimeState): readonly [word: string, tone: Tone] {
  return states[state] ?? [texts.states.unknown, "neutral"];
}

const healthStates: Readonly<Record<number, readonly [word: string, tone: Tone]>> = {
  [HealthState.STARTING]: [texts.health.starting, "info"],
  [HealthState.HEALTHY]: [texts.health.healthy, "good"],
  [HealthState.DEGRADED]: [texts.health.degraded, "warn"],
  [HealthState.FAILED]: [texts.health.failed, "bad"],
  [HealthState.STOPPED]: [texts.health.stopped, "warn"],
};

export function describeHealth(state: HealthState): readonly [word: string, tone: Tone] {
  return healthStates[state] ?? [texts.states.unknown, "neutral"];
}

export function describeCondition({ kind, count, message, nodeId, nodeName, flowId, flowLabel }: Condition): string {
  const node = [nodeName || nodeId, flowLabel || flowId].filter((part) => part !== "").join(" · ");
  const word = texts.conditions[kind] ?? texts.states.unknown;
  return [count > 1 ? `${word} ×${count}` : word, node, message].filter((part) => part !== "").join(": ");
}

const outcomes: Readonly<Record<number, readonly [word: string, tone: Tone]>> = {
  [DeploymentOutcome.RUNNING]: [words.running, "good"],
  [DeploymentOutcome.DEGRADED]: [words.degraded, "warn"],
  [DeploymentOutcome.FAILED]: [words.failed, "bad"],
  [DeploymentOutcome.PENDING]: [words.pending, "info"],
  [DeploymentOutcome.REPLACED]: [words.replaced, "neutral"],
  [DeploymentOutcome.UNDONE]: [words.undone, "bad"],
  [DeploymentOutcome.STOPPED]: [words.stopped, "warn"],
};

export function describeOutcome(outcome: DeploymentOutcome): readonly [word: string, tone: Tone] {
  return outcomes[outcome] ?? [words.unknown, "neutral"];
}

export function describeCaller({ user, tokenName }: Pick<Revision, "user" | "tokenName">): string {
  const name = user === "" ? texts.someone : user;
  return tokenName === "" ? name : texts.byToken(name, tokenName);
}
