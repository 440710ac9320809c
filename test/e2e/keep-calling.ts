import { setTimeout as delay } from "node:timers/promises";
import { expect } from "vitest";
import { eventually } from "./service.ts";

/** Repeats a call, and collects the outcomes. */
export function keepCalling(once: () => Promise<unknown>) {
  const outcomes: unknown[] = [];
  const over = new AbortController();
  const loop = async (): Promise<void> => {
    while (!over.signal.aborted) {
      outcomes.push(await once().catch((error: unknown) => String(error)));
      // Without a pause, the calls would take the CPU of what is tested with them.
      await delay(50);
    }
  };
  const ended = loop();
  return {
    /** Resolves after this many further outcomes. */
    async more(count: number): Promise<void> {
      const enough = outcomes.length + count;
      await eventually(async () => expect(outcomes.length).toBeGreaterThanOrEqual(enough));
    },
    /** The distinct outcomes. */
    async end(): Promise<unknown[]> {
      over.abort();
      await ended;
      return [...new Set(outcomes)];
    },
  };
}
