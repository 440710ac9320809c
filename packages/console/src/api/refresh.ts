import type { DescMethod, DescMethodUnary } from "@bufbuild/protobuf";
import { createConnectQueryKey } from "@connectrpc/connect-query";
import { type QueryClient, useQueryClient } from "@tanstack/react-query";

/**
 * Refetches the results of a method. A request sent before a change may return the old state: another request follows
 * it. It is not cancelled, since frequent changes would then never show a result.
 */
class Refresher {
  readonly #queries: QueryClient;
  readonly #filters;
  #running: Promise<void> | undefined;
  #isOutdated = false;

  constructor(queries: QueryClient, method: DescMethod) {
    this.#queries = queries;
    this.#filters = { queryKey: createConnectQueryKey({ schema: method as DescMethodUnary, cardinality: undefined }) };
  }

  refresh(): Promise<void> {
    this.#isOutdated = this.#running !== undefined || this.#queries.isFetching(this.#filters) > 0;
    return (this.#running ??= this.#run());
  }

  async #run(): Promise<void> {
    let isOutdated: boolean;
    do {
      await this.#queries.invalidateQueries(this.#filters, { cancelRefetch: false });
      isOutdated = this.#isOutdated;
      this.#isOutdated = false;
    } while (isOutdated);
    this.#running = undefined;
  }
}

const refreshers = new WeakMap<QueryClient, Map<DescMethod, Refresher>>();

/** Resolves when the queries of a method show the current state. */
export async function refresh(queries: QueryClient, method: DescMethod): Promise<void> {
  const ofClient = refreshers.get(queries) ?? new Map<DescMethod, Refresher>();
  refreshers.set(queries, ofClient);
  const refresher = ofClient.get(method) ?? new Refresher(queries, method);
  ofClient.set(method, refresher);
  await refresher.refresh();
}

/** Returns what reads these methods again: after a change of this page, whose events the user may not be permitted to receive. */
export function useRefresh(...methods: readonly DescMethodUnary[]): () => Promise<void> {
  const queries = useQueryClient();
  return async () => {
    await Promise.all(methods.map((method) => refresh(queries, method)));
  };
}
