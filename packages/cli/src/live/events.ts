import { timestampFromDate } from "@bufbuild/protobuf/wkt";
import { type Event, EventKind, EventSchema } from "@flowgate/client";
import type { ClientContext } from "../client/action.ts";
import { CliFailure, exitCodes } from "../failure.ts";
import { printable } from "../printable.ts";
import type { EventFlags } from "../shared-flags.ts";
import { readEventFilter } from "./event-filter.ts";
import { followEvents, type WatchRequest } from "./follow-events.ts";
import { formatEvent } from "./format-event.ts";

/** Prints the current state and then events, until the command is interrupted. */
export async function showEvents(
  context: ClientContext,
  { since, ...flags }: EventFlags & { readonly since?: Date },
): Promise<void> {
  const filter = await readEventFilter(context.session, flags);
  await printEvents(context, { ...filter, ...(since !== undefined && { since: timestampFromDate(since) }) });
}

/** Prints the messages of debug nodes. */
export async function showDebug(
  context: ClientContext,
  node: string | undefined,
  flags: Pick<EventFlags, "tab">,
): Promise<void> {
  const filter = await readEventFilter(context.session, { ...flags, ...(node !== undefined && { node }) });
  await printEvents(context, { ...filter, kinds: [EventKind.DEBUG] });
}

type PrintOptions = {
  /** Prints the events that describe the current state first. Defaults to true. */
  readonly withState?: boolean;
  /** True if an event is not printed. */
  readonly isLeftOut?: (event: Event) => boolean;
};

/** Prints events as they happen. */
export async function printEvents(
  { session, connection, output }: ClientContext,
  request: WatchRequest,
  { withState = true, isLeftOut = () => false }: PrintOptions = {},
): Promise<void> {
  const { signal, exitCode } = untilEnd();
  const events = followEvents({
    watch: (...call) => session.events.watchEvents(...call),
    request,
    signal,
    withState,
    onLost: () =>
      void process.stderr.write(
        `flowgate: The connection to ${printable(connection.server)} was lost. Connecting again.\n`,
      ),
    ...(connection.timeoutMs !== undefined && { connectMs: connection.timeoutMs }),
  });
  for await (const event of events) {
    // Bookmarks are for the connection only.
    if (event.kind.case !== "bookmark" && !isLeftOut(event)) {
      output.item(EventSchema, event, () => formatEvent(event, output));
    }
  }
  throw new CliFailure("", { exitCode: exitCode() });
}

/** Is aborted by SIGINT and SIGTERM, and when stdout is closed, as by `head`. */
function untilEnd(): { readonly signal: AbortSignal; readonly exitCode: () => number } {
  const end = new AbortController();
  let exitCode = 0;
  for (const [signal, code] of [
    ["SIGINT", exitCodes.interrupted],
    ["SIGTERM", exitCodes.terminated],
  ] as const) {
    // A second one ends the process at once.
    process.once(signal, () => {
      exitCode = code;
      end.abort();
    });
  }
  process.stdout.once("error", () => end.abort());
  return { signal: end.signal, exitCode: () => exitCode };
}
