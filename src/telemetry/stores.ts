import { FlowgateError } from "@flowgate/flows/errors";
import type { Registry } from "prom-client";
import { registerSamples } from "./register-samples.ts";
import { Series } from "@flowgate/base/series";

export interface StoreMetrics {
  /** Returns the operation, measured under this name, such as `flows.commit`. */
  measure(this: void, operation: Operation, name: string): Operation;
}

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

  return {
    measure(operation, name) {
      const ok = add(name, "ok");
      let refused: Series | undefined;
      let failed: Series | undefined;
      return (...parameters) => {
        const startMs = performance.now();
        const result = operation(...parameters);
        result.then(
          () => ok.observe(secondsSince(startMs)),
          (error: unknown) => {
            const series = isCallerError(error, parameters)
              ? (refused ??= add(name, "refused"))
              : (failed ??= add(name, "error"));
            series.observe(secondsSince(startMs));
          },
        );
        return result;
      };
    },
  };
}

/** True if the operation failed for a reason that the caller can act on, or because the caller canceled it. */
function isCallerError(error: unknown, parameters: readonly unknown[]): boolean {
  return (
    (error instanceof FlowgateError && error.reason !== "unavailable") ||
    parameters.some((parameter) => parameter instanceof AbortSignal && parameter.aborted)
  );
}

function secondsSince(startMs: number): number {
  return (performance.now() - startMs) / 1000;
}
