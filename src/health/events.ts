import { toHealth } from "./message.ts";
import type { HealthMonitor } from "./monitor.ts";
import { isRunnerState } from "../replicas/runs.ts";
import type { Runtime } from "@flowgate/runtime";
import type { DesiredStateStore } from "../store/desired-state.ts";
import type { EventInit } from "../events/events.ts";
import type { EventHub } from "../events/hub.ts";

type HealthEventsOptions = {
  readonly hub: EventHub;
  readonly monitor: Pick<HealthMonitor, "own" | "onChange">;
  readonly runtime: Pick<Runtime, "status">;
  readonly desired: Pick<DesiredStateStore, "current">;
  readonly rev: () => string;
};

/** Publishes each change of the health of this replica's flows, unless other ones run them. The health at first is known, but is no event. Disposing ends that. */
export function publishHealth({ hub, monitor, runtime, desired, rev }: HealthEventsOptions): Disposable {
  const read = (): EventInit | undefined =>
    isRunnerState(runtime.status().state) || !desired.current().isStarted
      ? { rev: rev(), kind: { case: "health", value: toHealth(monitor.own()) } }
      : undefined;
  const first = read();
  if (first !== undefined) {
    hub.remember(first);
  }
  return monitor.onChange(() => {
    const event = read();
    if (event !== undefined) {
      hub.publish(event);
    } else {
      hub.forget(({ kind, runtime: name }) => kind.case === "health" && name === hub.runtime);
    }
  });
}
