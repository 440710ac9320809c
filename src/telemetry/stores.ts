import { FlowgateError } from "../errors.ts";
import type { Registry } from "prom-client";
import { Series, registerSamples } from "./series.ts";

/** Times the operations of a store; each is one value of the label `operation`. */
export interface StoreMetrics {
  /** The same store. `name` goes before the names of its operations, as in "flows.commit". */
  measure<S extends object>(name: string, store: S): S;
}

type Operation = (...parameters: unknown[]) => unknown;

const metric = "flowgate_store_duration_seconds";

export function createStoreMetrics(registry: Registry): StoreMetrics {
  const all: Series[] = [];
  const add = (operation: string, outcome: string): Series => {
    const series = new Series({ operation, outcome });
    all.push(series);
    return series;
  };
  registerSamples(registry, {
    name: metric,
    help: "Time that an operation of the store takes; refused: for a reason that its caller can act on.",
    type: "histogram",
    *values() {
      for (const series of all) {
        yield* series.samples(metric);
      }
    },
  });

  const timed = (label: string, operation: Operation): Operation => {
    const ok = add(label, "ok");
    let refused: Series | undefined;
    let failed: Series | undefined;
    return (...parameters) => {
      const startMs = performance.now();
      const result = operation(...parameters);
      if (result instanceof Promise) {
        result.then(
          () => ok.observe(secondsSince(startMs)),
          (error: unknown) => {
            const series = isRefusal(error, parameters)
              ? (refused ??= add(label, "refused"))
              : (failed ??= add(label, "error"));
            series.observe(secondsSince(startMs));
          },
        );
      }
      return result;
    };
  };

  return {
    measure(name, store) {
      const operations = Object.entries(store)
        .filter((entry): entry is [string, Operation] => typeof entry[1] === "function")
        .map(([key, operation]) => [key, timed(`${name}.${key}`, operation.bind(store))]);
      return { ...store, ...(Object.fromEntries(operations) as Partial<typeof store>) };
    },
  };
}

/** For a reason that the caller can act on, or because it no longer waits. */
function isRefusal(error: unknown, parameters: readonly unknown[]): boolean {
  return (
    (error instanceof FlowgateError && error.reason !== "unavailable") ||
    parameters.some((parameter) => parameter instanceof AbortSignal && parameter.aborted)
  );
}

function secondsSince(startMs: number): number {
  return (performance.now() - startMs) / 1000;
}
