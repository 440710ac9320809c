import type { Logger } from "pino";
import type { Event } from "../../gen/flowgate/v1/events_pb.ts";
import { DeploymentOutcome, DeploymentType } from "../../gen/flowgate/v1/flows_pb.ts";
import { enumValue } from "@flowgate/base/enums";
import type { EventInit } from "../events/events.ts";
import type { EventHub } from "../events/hub.ts";
import type { Journal } from "../events/journal.ts";
import type { FlowStore } from "../store/flow-store.ts";
import type { RevisionEntry } from "../store/revision.ts";
import { outcomes } from "./revision-message.ts";

type DeploymentEventsOptions = {
  readonly hub: EventHub;
  readonly journal: Pick<Journal, "list">;
  readonly store: Pick<FlowStore, "active" | "findEntry" | "onRevision">;
  readonly log: Logger;
};

type Published = Pick<RevisionEntry, "rev" | "parent" | "by" | "token" | "message" | "deploymentType" | "outcome">;

/** Publishes the revisions that this process commits, and the outcomes that it records. Disposing ends the former. */
export class DeploymentEvents implements Disposable {
  readonly #options: DeploymentEventsOptions;
  readonly #subscription: Disposable;
  /** One after another, so that outcomes follow their revision. */
  #queue: Promise<void> = Promise.resolve();

  constructor(options: DeploymentEventsOptions) {
    this.#options = options;
    const { store } = options;
    this.#subscription = store.onRevision(({ revision, isOwn, message, isReload = false }) => {
      if (isReload) {
        return;
      }
      if (isOwn) {
        // At once, so that the event precedes the events of deployments made after the response to this one.
        this.#publish({ ...revision, message, outcome: { state: "pending", message: undefined, missingTypes: [] } });
        return;
      }
      this.#enqueue(async () => {
        const entry = await store.findEntry(revision.rev);
        if (entry !== undefined) {
          this.#remember(entry);
        }
      });
    });
    this.#enqueue(() => this.#restore());
  }

  recorded(entry: RevisionEntry): void {
    this.#enqueue(async () => this.#publish(entry));
  }

  /** Reads the outcome of the active revision again, if another process records it. */
  refresh(): void {
    const { hub, store } = this.#options;
    const known = hub.states().find(({ kind, rev }) => kind.case === "deployment" && rev === store.active().rev);
    if (known?.kind.case === "deployment" && known.kind.value.outcome === DeploymentOutcome.PENDING) {
      this.#enqueue(async () => {
        const entry = await store.findEntry(known.rev);
        if (entry !== undefined && entry.outcome.state !== "pending") {
          this.#remember(entry);
        }
      });
    }
  }

  /** Resolves when the revisions and outcomes so far were published. */
  flush(): Promise<void> {
    return this.#queue;
  }

  [Symbol.dispose](): void {
    this.#subscription[Symbol.dispose]();
  }

  #enqueue(step: () => Promise<void>): void {
    this.#queue = this.#queue.then(step).catch((err: unknown) => {
      this.#options.log.warn({ err }, "a deployment could not be published as an event");
    });
  }

  /** The active revision is known from the start: as the recorded event, or else without one. */
  async #restore(): Promise<void> {
    const { hub, journal, store } = this.#options;
    const { rev } = store.active();
    const entry = await store.findEntry(rev);
    if (entry === undefined) {
      return;
    }
    const { events } = await journal.list({ cases: new Set(["deployment"]) }, { limit: 1 });
    const [last] = events;
    if (last !== undefined && isSame(last, entry)) {
      hub.restore(last);
    } else {
      this.#remember(entry);
    }
  }

  #publish(entry: Published): void {
    this.#options.hub.publish(this.#toEvent(entry));
    this.#forgetOthers();
  }

  #remember(entry: RevisionEntry): void {
    this.#options.hub.remember(this.#toEvent(entry), entry.committedAtMs);
    this.#forgetOthers();
  }

  #forgetOthers(): void {
    const { hub, store } = this.#options;
    const { rev } = store.active();
    hub.forget((event) => event.kind.case === "deployment" && event.rev !== rev);
  }

  #toEvent({ rev, parent = "", by = "", token, message = "", deploymentType, outcome }: Published): EventInit {
    return {
      rev,
      kind: {
        case: "deployment",
        value: {
          outcome: outcomes[outcome.state],
          failure: outcome.message ?? "",
          user: by,
          tokenName: token?.name ?? "",
          message,
          type: enumValue(DeploymentType, deploymentType),
          parent,
          missingTypes: [...outcome.missingTypes],
        },
      },
    };
  }
}

/** True if an event is about this revision and its current outcome. */
function isSame({ rev, kind }: Event, entry: RevisionEntry): boolean {
  return rev === entry.rev && kind.case === "deployment" && kind.value.outcome === outcomes[entry.outcome.state];
}
