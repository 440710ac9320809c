import { type Condition, DeploymentOutcome, HealthState, type Revision, RuntimeState } from "@flowgate/client";
import { texts as revisionTexts } from "../texts/revision.ts";
import { texts } from "../texts/states.ts";

const { outcomes: words } = revisionTexts;

export type Tone = "good" | "bad" | "warn" | "info" | "neutral";

const states: Readonly<Record<number, readonly [word: string, tone: Tone]>> = {
  [RuntimeState.STARTING]: ["starting", "info"],
  [RuntimeState.RUNNING]: ["running", "good"],
  [RuntimeState.FAILED]: ["failed", "bad"],
  [RuntimeState.RESTARTING]: ["restarting", "bad"],
  [RuntimeState.SAFE]: ["safe mode", "bad"],
  [RuntimeState.STOPPED]: ["stopped", "warn"],
  [RuntimeState.STANDBY]: ["standby", "neutral"],
  [RuntimeState.DISABLED]: ["runs no flows", "neutral"],
};

export function describeState(state: RuntimeState): readonly [word: string, tone: Tone] {
  return states[state] ?? [texts.states.unknown, "neutral"];
}

const healthStates: Readonly<Record<number, readonly [word: string, tone: Tone]>> = {
  [HealthState.STARTING]: ["starting", "info"],
  [HealthState.HEALTHY]: ["healthy", "good"],
  [HealthState.DEGRADED]: ["degraded", "warn"],
  [HealthState.FAILED]: ["failed", "bad"],
  [HealthState.STOPPED]: ["stopped", "warn"],
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
