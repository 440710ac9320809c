import { Code, ConnectError, createClient, createRouterTransport } from "@connectrpc/connect";
import { type Event, EventsService } from "@flowgate/client";
import { expect, test } from "vitest";
import { followEvents, type FollowOptions } from "../../src/live/follow-events.ts";

const bookmark = (id: string) => ({ id, kind: { case: "bookmark", value: {} } }) as const;
const log = (id: string) => ({ id, kind: { case: "log", value: { message: id } } }) as const;
const state = (id: string) => ({ id, kind: { case: "runtimeState", value: {} } }) as const;
const snapshotEnd = (id: string) => ({ id, kind: { case: "snapshotEnd", value: {} } }) as const;
const dropped = (id: string) => ({ id, kind: { case: "dropped", value: { reason: "expired" } } }) as const;

type Init = ReturnType<typeof bookmark | typeof log | typeof state | typeof snapshotEnd | typeof dropped>;

/** The end of a connection: an error, or silence. */
type Connection = readonly [...events: Init[], end: ConnectError | "silence"];

const lost = new ConnectError("the connection was lost", Code.Aborted);
const down = new ConnectError("no server listens", Code.Unavailable);
const ended = new ConnectError("the token was revoked", Code.Unauthenticated);

/** Follows a service that ends its connections like this, until there is an error for which it is not followed any more. */
async function follow(connections: readonly Connection[], options: Partial<FollowOptions> = {}) {
  const requests: string[] = [];
  let losses = 0;
  const transport = createRouterTransport(({ rpc }) => {
    rpc(EventsService.method.watchEvents, async function* watch({ after }, { signal }) {
      const connection = connections[requests.length] ?? [ended];
      const [end, ...events] = connection.toReversed() as [Connection[number], ...Init[]];
      requests.push(after);
      yield* events.toReversed();
      if (end instanceof ConnectError) {
        throw end;
      }
      await new Promise((resolve) => {
        signal.addEventListener("abort", resolve);
      });
    });
  });
  const client = createClient(EventsService, transport);
  const seen: Event[] = [];
  const events = followEvents({
    watch: (...call) => client.watchEvents(...call),
    request: {},
    signal: new AbortController().signal,
    withState: true,
    onLost: () => (losses += 1),
    ...options,
  });
  const error: unknown = await (async () => {
    for await (const event of events) {
      seen.push(event);
    }
  })().catch((error: unknown) => error);
  const code = error instanceof ConnectError ? Code[error.code] : error;
  return { requests, losses, code, ids: seen.map(({ id, kind }) => `${kind.case} ${id}`) };
}

test("resumes after the last event, and reports each loss once", async () => {
  const result = await follow([
    [state("1"), snapshotEnd("7"), log("8"), lost],
    [down],
    [bookmark("8"), log("9"), bookmark("12"), lost],
    [bookmark("12"), ended],
  ]);
  expect(result).toEqual({
    requests: ["", "8", "8", "12"],
    losses: 2,
    code: "Unauthenticated",
    ids: ["runtimeState 1", "snapshotEnd 7", "log 8", "bookmark 8", "log 9", "bookmark 12", "bookmark 12"],
  });
});

test("reports a service that ends every connection at once only once", async () => {
  const { requests, losses } = await follow([
    [bookmark("7"), lost],
    [bookmark("7"), lost],
    [bookmark("7"), ended],
  ]);
  expect({ requests, losses }).toEqual({ requests: ["", "7", "7"], losses: 1 });
});

test("does not resume from an event that describes the current state", async () => {
  const { requests } = await follow([
    [state("1"), lost],
    [dropped("7"), state("1"), lost],
    [snapshotEnd("8"), ended],
  ]);
  expect(requests).toEqual(["", "", ""]);
});

test("leaves out the current state on request, but never that events are missing", async () => {
  const { ids } = await follow([[dropped("7"), state("1"), snapshotEnd("7"), log("8"), ended]], { withState: false });
  expect(ids).toEqual(["dropped 7", "snapshotEnd 7", "log 8"]);
});

test("connects again where nothing arrives any more, not even a bookmark", async () => {
  const { requests } = await follow([[bookmark("7"), "silence"]], { idleMs: 1 });
  expect(requests).toEqual(["", "7"]);
});

test.each<[string, Connection, string, Partial<FollowOptions>?]>([
  ["cannot be reached", [down], "Unavailable"],
  ["does not answer", ["silence"], "DeadlineExceeded", { connectMs: 1 }],
  ["does not know the operation", [new ConnectError("no such operation", Code.Unimplemented)], "Unimplemented"],
])("does not try again where a server %s at first", async (_, connection, code, options) => {
  const { requests, losses, ...result } = await follow([connection], options);
  expect({ requests, losses, code: result.code }).toEqual({ requests: [""], losses: 0, code });
});
