import { timestampMs } from "@bufbuild/protobuf/wkt";
import { type Event, type Revision, RevisionCause, RuntimeState } from "@flowgate/client";
import { describeCaller, describeOutcome, describeState, type Tone } from "../../components/describe.ts";
import { texts as all } from "../../texts/overview.ts";

export const dayMs = 24 * 60 * 60_000;

export type Entry = {
  readonly key: string;
  readonly kind: "deployment" | "state";
  /** In Unix time. */
  readonly atMs: number;
  readonly tone: Tone;
  readonly word: string;
  readonly text: string;
  readonly detail: string;
  readonly rev: string;
};

/** Newest first. `changes` are the events of the kind `runtime_state`, in any order. */
export function toEntries(revisions: readonly Revision[], changes: readonly Event[]): Entry[] {
  return [...revisions.map(toDeployment), ...toChanges(changes)].toSorted((one, other) => other.atMs - one.atMs);
}

const causes: Partial<Record<RevisionCause, string>> = {
  [RevisionCause.RESTORE]: "Restored an earlier revision",
  [RevisionCause.UNDO]: "Undid a deployment",
  [RevisionCause.AUTOMATIC_UNDO]: "Undid a failed deployment automatically",
};

function toDeployment(revision: Revision): Entry {
  const { rev, createTime, cause, user, message, outcome, outcomeMessage } = revision;
  const [word, tone] = describeOutcome(outcome);
  const text = causes[cause] ?? "Deployed";
  return {
    key: rev,
    kind: "deployment",
    atMs: createTime === undefined ? 0 : timestampMs(createTime),
    tone,
    word,
    text: user === "" ? text : `${text} ${all.timeline.by(describeCaller(revision))}`,
    detail: [message, outcomeMessage].filter((text) => text !== "").join(" · "),
    rev,
  };
}

const changed: Readonly<Record<number, string>> = {
  [RuntimeState.STARTING]: all.timeline.changed.starting,
  [RuntimeState.RUNNING]: all.timeline.changed.running,
  [RuntimeState.FAILED]: all.timeline.changed.failed,
  [RuntimeState.RESTARTING]: all.timeline.changed.restarting,
  [RuntimeState.SAFE]: all.timeline.changed.safe,
  [RuntimeState.STOPPED]: all.timeline.changed.stopped,
  [RuntimeState.STANDBY]: all.timeline.changed.standby,
  [RuntimeState.DISABLED]: all.timeline.changed.disabled,
};

type Change = { readonly event: Event; readonly atMs: number; readonly state: RuntimeState; readonly message: string };

function byRuntime(events: readonly Event[]): Map<string, Change[]> {
  const changes = events.flatMap((event): Change[] => {
    const { kind, time } = event;
    return kind.case === "runtimeState" && time !== undefined
      ? [{ event, atMs: timestampMs(time), state: kind.value.state, message: kind.value.message }]
      : [];
  });
  return Map.groupBy(
    changes.toSorted((one, other) => one.atMs - other.atMs),
    ({ event }) => event.runtime,
  );
}

/** Removes the events caused by a deployment while its flows run: the deployment itself is shown. */
function toChanges(events: readonly Event[]): Entry[] {
  return [...byRuntime(events).values()].flatMap((changes) => {
    let settled: RuntimeState | undefined;
    return changes.flatMap((change, index) => {
      const previous = changes[index - 1];
      const before = settled;
      const isStarting = change.state === RuntimeState.STARTING;
      if (!isStarting) {
        settled = change.state;
      }
      const isRestart = isStarting && previous !== undefined && previous.event.rev === change.event.rev;
      if (isRestart && isUp(before)) {
        return [toChange(change, "The flows were restarted")];
      }
      if (isStarting || (change.state === RuntimeState.RUNNING && before === RuntimeState.RUNNING)) {
        return [];
      }
      return [toChange(change, changed[change.state] ?? all.timeline.changed.unknown)];
    });
  });
}

/** True if there was a process that a restart has replaced. */
function isUp(state: RuntimeState | undefined): boolean {
  return state === RuntimeState.RUNNING || state === RuntimeState.FAILED;
}

function toChange({ event, atMs, state, message }: Change, text: string): Entry {
  const [word, tone] = describeState(state);
  return {
    key: `${event.id} ${event.runtime}`,
    kind: "state",
    atMs,
    tone,
    word,
    text: event.runtime === "" ? text : `${text} ${all.timeline.on(event.runtime)}`,
    detail: message,
    rev: event.rev,
  };
}

/** A time during which a runtime was in one state. */
export type Span = { readonly fromMs: number; readonly toMs: number; readonly tone: Tone; readonly word: string };

/** The states of each runtime until now, by its name; the time before the first change is not known. */
export function toSpans(events: readonly Event[], nowMs: number): Map<string, Span[]> {
  const spans = new Map<string, Span[]>();
  for (const [name, changes] of byRuntime(events)) {
    spans.set(
      name,
      changes.map(({ atMs, state }, index) => {
        const [word, tone] = describeState(state);
        return { fromMs: atMs, toMs: changes[index + 1]?.atMs ?? nowMs, tone, word };
      }),
    );
  }
  return spans;
}
