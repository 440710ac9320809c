import { Histogram, Registry } from "prom-client";
import { expect, test } from "vitest";
import { registerSamples } from "../../src/telemetry/register-samples.ts";
import { Series, buckets } from "@flowgate/base/series";

test("has the same output as prom-client's histogram for the same observations", async () => {
  const observations = [0, 0.0005, 0.001, 0.0011, 0.3, 0.5, 10, 10.1, 3600];
  const promRegistry = new Registry();
  const histogram = new Histogram({
    name: "some_seconds",
    help: "Some.",
    labelNames: ["kind"],
    buckets: [...buckets],
    registers: [promRegistry],
  });
  const registry = new Registry();
  const series = new Series({ kind: "a" });
  registerSamples(registry, {
    name: "some_seconds",
    help: "Some.",
    type: "histogram",
    values: () => series.samples("some_seconds"),
  });
  for (const seconds of observations) {
    histogram.observe({ kind: "a" }, seconds);
    series.observe(seconds);
  }
  const sorted = (text: string) =>
    text
      .split("\n")
      // The order of labels is not significant.
      .map((line) => line.replace(/\{(.*)\}/, (_, labels: string) => `{${labels.split(",").toSorted().join(",")}}`));
  expect(sorted(await registry.metrics())).toEqual(sorted(await promRegistry.metrics()));
});
