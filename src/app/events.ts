import type { Logger } from "pino";
import { DeploymentEvents } from "../deployments/deployment-events.ts";
import { FlowgateError } from "@flowgate/flows/errors";
import type { JoinedFeed } from "../events/feed.ts";
import { FlowEvents } from "../events/flow-events.ts";
import { EventHub } from "../events/hub.ts";
import { type Journal, createNoJournal, openJournal } from "../events/journal.ts";
import { openSecrets } from "../events/redaction/secrets.ts";
import { publishRuntimeStates } from "../events/runtime-events.ts";
import type { Options } from "../options/parse.ts";
import type { LogEntry, NodeObserver, Redaction, Runtime } from "@flowgate/runtime";
import type { JournalStore } from "../store/journal-store.ts";
import type { Store } from "../store/store.ts";
import type { Foundation } from "./foundation.ts";
import { createReplicaEvents, type ReplicaEvents, replicaName } from "./replica-events.ts";

/** The events of this process, and what publishes them. */
export type Live = {
  readonly hub: EventHub;
  readonly journal: Journal;
  readonly flows: FlowEvents;
  /** Receives the runtime's reports about its nodes. */
  readonly nodeObserver: NodeObserver;
  readonly deployments: DeploymentEvents;
  /** Removes credential values from the output of flows. */
  readonly redaction: Redaction;
  /** The exchange of events between replicas; undefined if there can be only one. */
  readonly replicas: ReplicaEvents | undefined;
  /** Opens the events of all replicas for a reader that starts after a position; undefined: now. */
  join(afterSeq: number | undefined): JoinedFeed;
  /** Replaces the name of this replica. */
  rename(name: string): void;
  /** Publishes the states of the runtime. */
  follow(runtime: Pick<Runtime, "status" | "onChange">): void;
};

const bookmarkMs = 20_000;

const bytesPerMb = 1024 * 1024;
const msPerDay = 24 * 60 * 60_000;

/** Opens the events. Resources are added to the stack. */
export async function openLive(
  { options, listen, log, store, certificates }: Foundation,
  stack: AsyncDisposableStack,
): Promise<Live> {
  const { flows, cluster } = store;
  // Renamed when the port is open, which the system may choose.
  const runtime = cluster === undefined ? "" : replicaName(listen ? options.port : undefined);
  const { size, age } = options.live.journal;
  const journalStore = size > 0 && age > 0 ? openJournalStore(store, log) : undefined;
  const hub = new EventHub({ runtime, lastSeq: (await findLastSeq(journalStore, runtime, log)) ?? 0, log });
  const closing = new FlowgateError("unavailable", "the service is closing");
  stack.defer(() => hub.close(closing));
  const journal = stack.use(
    journalStore === undefined
      ? createNoJournal()
      : openJournal({ store: journalStore, hub, log, maxBytes: size * bytesPerMb, maxAgeMs: age * msPerDay }),
  );
  const replicas =
    cluster === undefined
      ? undefined
      : stack.use(createReplicaEvents({ hub, journal, cluster, credentialKeys: store.keys, certificates, log }));
  stack.defer(() => replicas?.views.close(closing));
  const redaction = stack.use(await openSecrets(flows, log));
  const rev = (): string => flows.active().rev;
  const flowEvents = stack.use(new FlowEvents({ hub, rev, level: flowLogLevel(options) }));
  const deployments = new DeploymentEvents({ hub, journal, store: flows, log });
  stack.defer(() => deployments.flush());
  stack.use(deployments);
  await deployments.flush();
  const timer = setInterval(() => {
    deployments.refresh();
    hub.bookmark();
    replicas?.views.bookmark();
  }, bookmarkMs).unref();
  stack.defer(() => clearInterval(timer));
  return {
    hub,
    journal,
    flows: flowEvents,
    nodeObserver: observeNodes(flowEvents, hub),
    deployments,
    redaction,
    replicas,
    join: (afterSeq) => replicas?.views.join(afterSeq) ?? { feed: hub, ready: undefined, [Symbol.dispose]() {} },
    rename(replica) {
      if (cluster !== undefined) {
        hub.rename(replica);
      }
    },
    follow(runtime) {
      stack.use(publishRuntimeStates({ hub, runtime, rev }));
    },
  };
}

function observeNodes(flows: FlowEvents, hub: EventHub): NodeObserver {
  return {
    onEvents: (events) => flows.publishNodes(events),
    onEnd: () => flows.end(),
    hasLeftErrors: () => flows.nodes.faults().length > 0,
    wantsDebug: () => hub.wantsDebug,
    onDemand: (listener) => hub.onDemand(listener),
  };
}

function openJournalStore(store: Store, log: Logger): JournalStore {
  return store.openJournal({
    onReplaced: (reason) => log.warn({ reason }, "the journal of events could not be read: it begins anew"),
  });
}

/** A journal that can't be read must not keep the service from starting: it may be written later. */
async function findLastSeq(store: JournalStore | undefined, runtime: string, log: Logger): Promise<number | undefined> {
  try {
    return await store?.lastSeq(runtime);
  } catch (err) {
    log.warn({ err }, "the journal of events can't be read");
    return undefined;
  }
}

/** The lowest severity of flows' entries that is logged. */
export function flowLogLevel({ log }: Pick<Options, "log">): LogEntry["level"] {
  return log.level === "silent" ? "fatal" : log.level;
}
