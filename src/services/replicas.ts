import type { HandlerContext, ServiceImpl } from "@connectrpc/connect";
import type { MessageInitShape } from "@bufbuild/protobuf";
import type { ReplicasService, WatchReplicaResponseSchema } from "../../gen/flowgate/replicas/v1/replicas_pb.ts";
import { eventCases, withoutDebug } from "../events/events.ts";
import type { EventHub } from "../events/hub.ts";
import { formatPosition, parsePosition } from "../events/position.ts";
import { createProof, type ReplicaKeys } from "../events/replicas/proof.ts";

type ReplicasServiceOptions = { readonly hub: EventHub; readonly keys: ReplicaKeys };

type Message = Exclude<MessageInitShape<typeof WatchReplicaResponseSchema>["message"], undefined>;

/** Serves the events of this replica to the others, never events received from them. */
export function replicasService({ hub, keys }: ReplicasServiceOptions): ServiceImpl<typeof ReplicasService> {
  return {
    async *watchReplica({ after, debug }, context) {
      const afterSeq = Math.max(parsePosition(after, "after"), hub.startSeq);
      const stream = hub.watch({ cases: debug ? eventCases : withoutDebug }, { afterSeq });
      // The states of later events follow with them.
      const later = new Set(hub.between(afterSeq, hub.lastSeq).map(({ event }) => event));
      const states = hub.states().filter((event) => !later.has(event));
      context.signal.addEventListener("abort", () => stream.end());
      try {
        const proof = createProof(keys, authorizationOf(context));
        yield toMessage({ case: "start", value: { after: formatPosition(afterSeq), proof } });
        for (const state of states) {
          yield toMessage({ case: "state", value: state });
        }
        for await (const event of stream) {
          yield toMessage(
            event.kind.case === "bookmark" ? { case: "position", value: event.id } : { case: "event", value: event },
          );
        }
      } finally {
        stream.end();
      }
    },
    confirmPosition({ position }) {
      hub.advance(parsePosition(position, "position"));
      hub.bookmark();
      return {};
    },
  };
}

function toMessage(message: Message): MessageInitShape<typeof WatchReplicaResponseSchema> {
  return { message };
}

function authorizationOf({ requestHeader }: HandlerContext): string {
  return requestHeader.get("authorization") ?? "";
}
