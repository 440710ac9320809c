import { type EventKind, EventKindSchema, type LogLevel, LogLevelSchema } from "@flowgate/client";
import { findTab, readNodes } from "../administration/find-node.ts";
import type { ClientSession } from "../client/session.ts";
import { parseEnum } from "../output/values.ts";
import { printable } from "../printable.ts";
import { type EventFlags, recordedKinds } from "../shared-flags.ts";

/** The fields by which requests select events. */
export type EventSelection = {
  readonly kinds: EventKind[];
  readonly tab: string;
  readonly node: string;
  readonly level: LogLevel;
};

/** Converts flags to the fields of a request. Says on stderr what does not exist in the active flows. */
export async function readEventFilter(session: ClientSession, flags: EventFlags): Promise<EventSelection> {
  const { level = "", kinds = level === "" ? [] : ["log", "node_error"], tab = "", node = "" } = flags;
  return {
    ...(await findInFlows(session, { tab, node })),
    kinds: toEventKinds(kinds),
    level: parseEnum(LogLevelSchema, level),
  };
}

/** The same; without kinds, all that the service records. */
export async function readLogFilter(session: ClientSession, flags: EventFlags): Promise<EventSelection> {
  const filter = await readEventFilter(session, flags);
  return filter.kinds.length > 0 ? filter : { ...filter, kinds: toEventKinds(recordedKinds) };
}

function toEventKinds(names: readonly string[]): EventKind[] {
  return names.map((name) => parseEnum(EventKindSchema, name.replaceAll("_", " ")));
}

type Place = { readonly tab: string; readonly node: string };

/** The same with the id of the tab. What does not exist may have existed, or be about to be deployed. */
async function findInFlows(session: ClientSession, { tab, node }: Place): Promise<Place> {
  if (tab === "" && node === "") {
    return { tab, node };
  }
  const nodes = await readNodes(session);
  if (nodes.length === 0) {
    return { tab, node };
  }
  const found = tab === "" ? undefined : findTab(nodes, tab);
  if (tab !== "" && found === undefined) {
    warn(`No tab has the label or id ${JSON.stringify(tab)} now.`);
  }
  const isNamed = nodes.some(({ id, type, properties }) => [id, type, properties?.["name"]].includes(node));
  if (node !== "" && !isNamed) {
    warn(`No node has the id, name or type ${JSON.stringify(node)} now.`);
  }
  return { tab: found?.id ?? tab, node };
}

function warn(message: string): void {
  process.stderr.write(`flowgate: ${printable(message)} flowgate get flows lists the tabs.\n`);
}
