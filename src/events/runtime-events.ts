import { RuntimeStateReason } from "../../gen/flowgate/v1/health_pb.ts";
import { RuntimeState } from "../../gen/flowgate/v1/settings_pb.ts";
import { enumValue } from "@flowgate/base/enums";
import { type Runtime, outcomeMessage } from "@flowgate/runtime";
import { type EventInit, nodeFields } from "./events.ts";
import type { EventHub } from "./hub.ts";

type RuntimeEventsOptions = {
  readonly hub: EventHub;
  readonly runtime: Pick<Runtime, "status" | "onChange">;
  readonly rev: () => string;
};

/** Publishes each change of the runtime's state. The state at first is known, but is no event. Disposing ends that. */
export function publishRuntimeStates({ hub, runtime, rev }: RuntimeEventsOptions): Disposable {
  const read = () => {
    const { state, message, reason, fault } = runtime.status();
    return { state, message, reason, fault };
  };
  let last = read();
  const toEvent = ({ state, message, reason, fault }: typeof last): EventInit => ({
    rev: rev(),
    ...(fault !== undefined && nodeFields(fault.node)),
    kind: {
      case: "runtimeState",
      value: {
        state: enumValue(RuntimeState, state),
        message: outcomeMessage({ message }) ?? "",
        ...(reason !== undefined && { reason: enumValue(RuntimeStateReason, reason) }),
        line: fault?.line ?? 0,
        column: fault?.column ?? 0,
      },
    },
  });
  hub.remember(toEvent(last));
  return runtime.onChange(() => {
    const next = read();
    if (next.state !== last.state || next.message !== last.message || next.reason !== last.reason) {
      last = next;
      hub.publish(toEvent(next));
    }
  });
}
