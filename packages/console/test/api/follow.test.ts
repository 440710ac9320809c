import { create } from "@bufbuild/protobuf";
import { createRouterTransport } from "@connectrpc/connect";
import { type Event, EventSchema, EventsService } from "@flowgate/client";
import { expect, test } from "vitest";
import { followEvents } from "../../src/api/follow.ts";

function eventOf(kind: "runtimeState" | "snapshotEnd" | "bookmark", id: string): Event {
  return create(EventSchema, { id, kind: { case: kind as "snapshotEnd", value: {} } });
}

/** Follows streams that send these events; each but the last one ends afterwards, unless it is said to stay silent. */
async function follow(streams: readonly (readonly Event[])[], { isSilent = false, idleMs = 60_000 } = {}) {
  const requests: string[] = [];
  const connections: boolean[] = [];
  const done = new AbortController();
  const transport = createRouterTransport(({ rpc }) => {
    rpc(EventsService.method.watchEvents, async function* watch({ after }, { signal }) {
      const events = streams[requests.push(after) - 1] ?? [];
      yield* events;
      if (requests.length === streams.length) {
        done.abort();
      } else if (isSilent) {
        await new Promise((resolve) => signal.addEventListener("abort", resolve));
      }
    });
  });
  const follower = { onEvent: () => {}, onConnection: (isConnected: boolean) => void connections.push(isConnected) };
  await followEvents(transport, {}, follower, done.signal, idleMs);
  return { requests, connections };
}

test("a stream that is lost within the current state begins with it again, and continues later after the last event", async () => {
  const { requests } = await follow([
    [eventOf("runtimeState", "1")],
    [eventOf("runtimeState", "1"), eventOf("snapshotEnd", "7")],
    [eventOf("bookmark", "7")],
  ]);
  expect(requests).toEqual(["", "", "7"]);
});

test("a connection on which nothing arrives is lost", async () => {
  const streams = [[eventOf("bookmark", "7")], [eventOf("bookmark", "7")]];
  const { requests, connections } = await follow(streams, { isSilent: true, idleMs: 50 });
  expect(requests).toEqual(["", "7"]);
  expect(connections.slice(0, 2)).toEqual([true, false]);
});
