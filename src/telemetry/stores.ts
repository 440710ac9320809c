import { FlowgateError } from "../errors.ts";
import type { Registry } from "prom-client";
import { Series, registerSamples } from "./series.ts";

/** Measures the duration of store operations. */
export interface StoreMetrics {
  /** Returns the store with these operations measured. The label `operation` is prefixed with `name`: "flows.commit". */
  measure<S extends object>(name: string, store: S, operations: readonly OperationName<S>[]): S;
}

/** The names of the methods that return a promise. */
type OperationName<S> = {
  [Name in keyof S]: S[Name] extends (...parameters: never[]) => Promise<unknown> ? Name : never;
}[keyof S] &
  string;

type Operation = (...parameters: unknown[]) => Promise<unknown>;

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
    help: "Duration of store operations, by outcome (refused: for a reason that the caller can act on).",
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
      result.then(
        () => ok.observe(secondsSince(startMs)),
        (error: unknown) => {
          const series = isCallerError(error, parameters)
            ? (refused ??= add(label, "refused"))
            : (failed ??= add(label, "error"));
          series.observe(secondsSince(startMs));
        },
      );
      return result;
    };
  };

  return {
    measure(name, store, operations) {
      const measured = operations.map((key) => {
        const operation = store[key] as Operation;
        return [key, timed(`${name}.${key}`, operation.bind(store))] as const;
      });
      return { ...store, ...(Object.fromEntries(measured) as Partial<typeof store>) };
    },
  };
}

/** Whether the operation failed for a reason that the caller can act on, or because the caller canceled it. */
function isCallerError(error: unknown, parameters: readonly unknown[]): boolean {
  return (
    (error instanceof FlowgateError && error.reason !== "unavailable") ||
    parameters.some((parameter) => parameter instanceof AbortSignal && parameter.aborted)
  );
}

function secondsSince(startMs: number): number {
  return (performance.now() - startMs) / 1000;
}
