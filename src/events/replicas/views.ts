import type { Cluster } from "../../store/cluster.ts";
import type { JoinedFeed } from "../feed.ts";
import { positionBefore } from "../position.ts";
import { ReplicaView, type ViewOptions } from "./view.ts";

type ReplicaViewsOptions = Omit<ViewOptions, "sinceSeq"> & { readonly cluster: Pick<Cluster, "replicas" | "onChange"> };

/** The time for which connections to other replicas stay open after the last reader. */
const lingerMs = 30_000;

/** The events that are received from other replicas at first, so that clients of other replicas can continue here. */
const recentMs = 60_000;

/** Opens connections to the other replicas while someone reads their events. */
export class ReplicaViews implements Disposable {
  readonly #options: ReplicaViewsOptions;
  readonly #subscription: Disposable;
  #view: ReplicaView | undefined;
  #readers = 0;
  #linger: NodeJS.Timeout | undefined;

  constructor(options: ReplicaViewsOptions) {
    this.#options = options;
    const { cluster } = options;
    this.#subscription = cluster.onChange(() => this.#view?.update(cluster.replicas()));
  }

  /** `afterSeq` is where the reader starts; undefined: now. */
  join(afterSeq: number | undefined): JoinedFeed {
    const recentSeq = positionBefore(Date.now() - recentMs);
    const sinceSeq = Math.min(afterSeq ?? recentSeq, recentSeq);
    clearTimeout(this.#linger);
    this.#view ??= new ReplicaView({ ...this.#options, sinceSeq }, this.#options.cluster.replicas());
    this.#readers += 1;
    const view = this.#view;
    return { feed: view, ready: view.isReady ? undefined : view.ready, [Symbol.dispose]: () => this.#leave() };
  }

  bookmark(): void {
    this.#view?.bookmark();
  }

  close(error: Error): void {
    this.#view?.close(error);
  }

  [Symbol.dispose](): void {
    clearTimeout(this.#linger);
    this.#subscription[Symbol.dispose]();
    this.#view?.[Symbol.dispose]();
  }

  #leave(): void {
    this.#readers -= 1;
    if (this.#readers === 0) {
      this.#linger = setTimeout(() => {
        this.#view?.[Symbol.dispose]();
        this.#view = undefined;
      }, lingerMs).unref();
    }
  }
}
