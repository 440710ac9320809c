import { hostname } from "node:os";
import type { Logger } from "pino";
import { DeploymentEvents } from "../deployments/deployment-events.ts";
import { FlowgateError } from "../errors.ts";
import type { CredentialSets } from "../flows/configuration.ts";
import { type CredentialSet, isSameSet } from "../flows/credential-sets.ts";
import type { JoinedFeed } from "../live/feed.ts";
import { FlowEvents } from "../live/flow-events.ts";
import { EventHub } from "../live/hub.ts";
import { type Journal, createNoJournal, openJournal } from "../live/journal.ts";
import { Redactor } from "../live/redactor.ts";
import { publishRuntimeStates } from "../live/runtime-events.ts";
import type { Options } from "../options/parse.ts";
import type { LogEntry } from "../runtime/messages.ts";
import type { NodeObserver } from "../runtime/node-events.ts";
import type { Runtime } from "../runtime/runtime.ts";
import type { Certificates } from "../server/http/certificates.ts";
import type { JournalStore } from "../store/journal-store.ts";
import type { Revision } from "../store/revision.ts";
import type { Store } from "../store/store.ts";
import { createReplicaEvents, type ReplicaEvents } from "./replica-events.ts";

/** The events of this process, and what publishes them. */
export type Live = {
  readonly hub: EventHub;
  readonly journal: Journal;
  readonly flows: FlowEvents;
  /** Receives what the runtime reports of its nodes. */
  readonly nodeObserver: NodeObserver;
  readonly deployments: DeploymentEvents;
  /** Removes values of credentials from what flows write. */
  readonly redactor: () => Redactor;
  /** How replicas exchange their events; undefined if there can be only one. */
  readonly replicas: ReplicaEvents | undefined;
  /** Opens the events of all replicas for a reader that starts after a position; undefined: now. */
  join(afterSeq: number | undefined): JoinedFeed;
  /** Removes the values of credentials from what flows have written. `isCut`: the text may end within one. */
  redact(text: string, isCut: boolean): string;
  /** Also removes these credentials, which nodes store, from now on. */
  learn(sets: CredentialSets): void;
  /** Replaces the name of this replica. */
  rename(name: string): void;
  /** Publishes the states of the runtime. */
  follow(runtime: Pick<Runtime, "status" | "onChange" | "onResult">): void;
};

type LiveOptions = {
  readonly options: Pick<Options, "live" | "log" | "credentialSecret">;
  readonly log: Logger;
  readonly store: Store;
  readonly certificates: Certificates | undefined;
  /** The name of this replica, unless it is renamed. */
  readonly name: string;
};

const bookmarkMs = 20_000;

const bytesPerMb = 1024 * 1024;
const msPerDay = 24 * 60 * 60_000;

/** Opens the events. Resources are added to the stack. */
export async function openLive(
  { options, log, store, certificates, name }: LiveOptions,
  stack: AsyncDisposableStack,
): Promise<Live> {
  const { flows, cluster } = store;
  const runtime = cluster === undefined ? "" : name;
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
  const { credentialSecret } = options;
  const replicas =
    cluster === undefined || credentialSecret === undefined
      ? undefined
      : stack.use(createReplicaEvents({ hub, journal, cluster, credentialSecret, certificates, log }));
  stack.defer(() => replicas?.views.close(closing));
  const secrets = stack.use(await openSecrets(flows));
  const redactor = (): Redactor => secrets.redactor;
  const rev = (): string => flows.active().rev;
  const flowEvents = stack.use(new FlowEvents({ hub, redactor, rev, level: flowLogLevel(options) }));
  const deployments = new DeploymentEvents({ hub, journal, store: flows, redactor, log });
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
    redactor,
    replicas,
    join: (afterSeq) => replicas?.views.join(afterSeq) ?? { feed: hub, ready: undefined, [Symbol.dispose]() {} },
    redact: (text, isCut) => redactor().redact(text, isCut),
    learn: (sets) => secrets.learn(sets),
    rename(replica) {
      if (cluster !== undefined) {
        hub.rename(replica);
      }
    },
    follow(runtime) {
      stack.use(publishRuntimeStates({ hub, runtime, redactor, rev }));
      stack.use(runtime.onResult(({ revision }) => secrets.setRunning(revision)));
    },
  };
}

function observeNodes(flows: FlowEvents, hub: EventHub): NodeObserver {
  return {
    onEvents: (events) => flows.publishNodes(events),
    onEnd: () => flows.end(),
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

/** The name of this replica for operators; without a port, it is the only one of its process. */
export function replicaName(port: number | undefined): string {
  return `${hostname()}:${port ?? `process ${process.pid}`}`;
}

type Secrets = Disposable & {
  /** Knows the credentials of the active revision, of the one before, and of the one that runs. */
  readonly redactor: Redactor;
  setRunning(revision: Pick<Revision, "credentials">): void;
  /** Adds credentials that nodes store, before they are those of the active revision. */
  learn(sets: CredentialSets): void;
};

/** How many of the sets that nodes have stored last are known, also if they have stored others since. */
const maxLearned = 100;

async function openSecrets(store: Store["flows"]): Promise<Secrets> {
  const { credentials, parent } = store.active();
  const none: CredentialSets = new Map();
  let [active, previous, running] = [credentials, none, none];
  let redactor: Redactor | undefined;
  let learned: readonly (readonly [id: string, set: NonNullable<CredentialSet>])[] = [];
  const learn = (sets: CredentialSets): void => {
    const added = [...sets].filter(
      ([id, set]) => !learned.some(([other, known]) => other === id && isSameSet(known, set)),
    );
    if (added.length > 0) {
      learned = [...learned, ...added].slice(-maxLearned);
      redactor = undefined;
    }
  };
  using subscriptions = new DisposableStack();
  subscriptions.use(
    store.onRevision(({ revision }) => {
      if (revision.credentials !== active) {
        previous = active;
        active = revision.credentials;
        redactor = undefined;
      }
    }),
  );
  subscriptions.use(
    store.onCredentials((next) => {
      // Those that were replaced can still be in texts.
      const replaced = [...active].filter(([id, set]) => !isSameSet(set, next.get(id)));
      active = next;
      redactor = undefined;
      learn(new Map(replaced));
    }),
  );
  learn(store.unclaimedCredentials());
  previous = (parent === undefined ? undefined : await store.findCredentials(parent)) ?? none;
  const resources = subscriptions.move();
  return {
    get redactor() {
      const written = learned.map((entry) => new Map([entry]));
      return (redactor ??= new Redactor(new Set([active, previous, running, ...written])));
    },
    learn,
    setRunning(revision) {
      if (revision.credentials !== running) {
        running = revision.credentials;
        redactor = undefined;
      }
    },
    [Symbol.dispose]: () => resources.dispose(),
  };
}
