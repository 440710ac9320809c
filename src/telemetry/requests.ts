import type { DescMethod } from "@bufbuild/protobuf";
import { codeToString } from "@connectrpc/connect/protocol-connect";
import type { Registry } from "prom-client";
import type { Observer, CallOutcome, Protocol } from "./observer.ts";
import { registerSamples } from "./register-samples.ts";
import { Series } from "@flowgate/base/series";

const name = "flowgate_request_duration_seconds";

type MethodMetrics = { readonly durations: Series; readonly counts: Map<CallOutcome, number> };

/** Label values are bounded by the methods, protocols and codes: none comes from what clients send. */
export function createRequestMetrics(registry: Registry): Pick<Observer, "requestStarted" | "requestEnded"> {
  const all: MethodMetrics[] = [];
  const byMethod = new Map<DescMethod | undefined, Partial<Record<Protocol, MethodMetrics>>>();
  let inFlight = 0;

  const add = (method: DescMethod | undefined, protocol: Protocol): MethodMetrics => {
    const name = method === undefined ? "other" : `${method.parent.typeName}/${method.name}`;
    const measured = { durations: new Series({ method: name, protocol }), counts: new Map() };
    all.push(measured);
    return measured;
  };

  registerSamples(registry, {
    name: "flowgate_requests_total",
    help: "Completed requests by RPC (other: a request for no RPC), protocol and code.",
    type: "counter",
    *values() {
      for (const { durations, counts } of all) {
        for (const [outcome, value] of counts) {
          yield { labels: { ...durations.labels, code: outcome === undefined ? "ok" : codeToString(outcome) }, value };
        }
      }
    },
  });
  registerSamples(registry, {
    name,
    help: "Time from the header of a request to the end of its response, for a stream to its end.",
    type: "histogram",
    *values() {
      for (const { durations } of all) {
        yield* durations.samples(name);
      }
    },
  });
  registerSamples(registry, {
    name: "flowgate_requests_in_flight",
    help: "Requests in progress, including open streams.",
    type: "gauge",
    values: () => [{ value: inFlight }],
  });

  return {
    requestStarted() {
      inFlight += 1;
    },
    requestEnded(method, protocol, outcome, seconds) {
      inFlight -= 1;
      let byProtocol = byMethod.get(method);
      if (byProtocol === undefined) {
        byProtocol = {};
        byMethod.set(method, byProtocol);
      }
      const { durations, counts } = (byProtocol[protocol] ??= add(method, protocol));
      durations.observe(seconds);
      counts.set(outcome, (counts.get(outcome) ?? 0) + 1);
    },
  };
}
