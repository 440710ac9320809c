import type { Metric, Registry } from "prom-client";
import type { Sample } from "@flowgate/base/series";

type Samples = {
  readonly name: string;
  readonly help: string;
  readonly type: "counter" | "gauge" | "histogram" | "summary";
  /** Called at each scrape. */
  readonly values: () => Iterable<Sample> | Promise<Iterable<Sample>>;
};

/** Registers a metric whose samples are computed at each scrape. The registry uses only these properties of a metric. */
export function registerSamples(registry: Registry, { name, help, type, values }: Samples): void {
  const metric = {
    name,
    help,
    type,
    get: async () => ({ name, help, type, aggregator: "sum", values: [...(await values())] }),
  };
  registry.registerMetric(metric as unknown as Metric);
}
