import { setTimeout as delay } from "node:timers/promises";
import type { ServerConfig } from "./authentication.ts";
import { limits } from "./limits.ts";
import { probe, type ProbedServer } from "./probe.ts";

export type Search = {
  /** Servers of earlier timelines were replaced. */
  readonly minTimeline: number;
  /** Ends the search. */
  readonly signal: AbortSignal;
  /** Called with the last failure of each server once all have been tried, and then with each further one. */
  readonly onFailure: (failure: AggregateError) => void;
};

/** Probes the servers until one of them is the primary. Resolves with undefined if the search was ended before. */
export async function findPrimary(servers: readonly ServerConfig[], search: Search): Promise<ProbedServer | undefined> {
  const found = new AbortController();
  const signal = AbortSignal.any([search.signal, found.signal]);
  const failures = new Map<ServerConfig, unknown>();

  async function findAt(config: ServerConfig): Promise<ProbedServer | undefined> {
    while (!signal.aborted) {
      try {
        return await probe(config, search.minTimeline);
      } catch (error) {
        failures.set(config, error);
        // Until all have been tried, it is not known which failure matters.
        if (!signal.aborted && failures.size === servers.length) {
          search.onFailure(new AggregateError(failures.values()));
        }
      }
      await delay(limits.searchPauseMs, undefined, { ref: false });
    }
    return undefined;
  }

  // All at the same time: one that does not respond must not delay the others.
  const primary = await Promise.race(servers.map(findAt));
  found.abort();
  return primary;
}
