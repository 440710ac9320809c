import { expect } from "vitest";
import { eventually } from "./service.ts";

/** Repeats a call without a pause, and collects the outcomes. */
export function keepCalling(once: () => Promise<unknown>) {
  const outcomes: unknown[] = [];
  const over = new AbortController();
  const loop = async (): Promise<void> => {
    while (!over.signal.aborted) {
      outcomes.push(await once().catch((error: unknown) => String(error)));
    }
  };
  const ended = loop();
  return {
    /** Resolves when there are so many more. */
    async more(count: number): Promise<void> {
      const enough = outcomes.length + count;
      await eventually(async () => expect(outcomes.length).toBeGreaterThanOrEqual(enough));
    },
    /** Each kind of outcome. */
    async end(): Promise<unknown[]> {
      over.abort();
      await ended;
      return [...new Set(outcomes)];
    },
  };
}
