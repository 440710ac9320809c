import { FlowsService, type SetFlowsRequest } from "../../gen/flowgate/v1/flows_pb.ts";
import { ThingsService } from "../../packages/gateway/test/gen/gatewaytest/v1/things_pb.ts";
import { createGateway } from "@flowgate/gateway";
import type { Benchmark, Effort, Result } from "../benchmark.ts";
import { functionFlows } from "../flows.ts";
import { formatSpread, median } from "../statistics.ts";
import { handle } from "./handle.ts";

const MEGABYTE = 1024 * 1024;

/** A body of 2 MB, and a call that decodes it and encodes a response of the same size. */
type Case = { readonly body: Buffer; readonly call: () => Promise<unknown> };

export const body: Benchmark = {
  name: "body",
  title: "The gateway alone: reading and writing a body of 2 MB, beside JSON.parse and JSON.stringify of it",
  async run({ starts, rounds }: Effort): Promise<Result> {
    const cases: [name: string, made: Case][] = [
      ["messages of 24 fields, 7 of them set", echoOf({ things: repeat(messageOf) })],
      ["a Struct", echoOf({ struct: { items: repeat(messageOf) } })],
      ["a flow configuration", flowsOf()],
    ];
    const results = [];
    for (const [name, { body, call }] of cases) {
      const ours: number[] = [];
      const theirs: number[] = [];
      const warmUps = 5;
      for (let round = 0; round < warmUps + starts * rounds; round++) {
        const [measured, plain] = [await msOf(call), await msOf(() => JSON.stringify(JSON.parse(body.toString())))];
        if (round >= warmUps) {
          ours.push(measured);
          theirs.push(plain);
        }
      }
      results.push({ name, body, ours, theirs, ratios: ours.map((each, at) => each / (theirs[at] ?? each)) });
    }
    const worst = results.toSorted((one, other) => median(other.ratios) - median(one.ratios))[0];
    return {
      figures: [
        {
          title: "a body of 2 MB, of JSON.parse and JSON.stringify; the worst kind of message",
          unit: "x",
          values: worst?.ratios ?? [],
          goal: { kind: "atMost", value: 1.5 },
        },
      ],
      rows: results.map(({ name, body, ours, theirs, ratios }) => ({
        "": name,
        MB: (body.length / MEGABYTE).toFixed(1),
        "gateway, ms": formatSpread(ours),
        "JSON, ms": formatSpread(theirs),
        ratio: formatSpread(ratios),
      })),
      chart: [
        { title: "ratio of the times", bars: results.map(({ name, ratios }) => ({ label: name, values: ratios })) },
      ],
    };
  },
};

async function msOf(work: () => unknown): Promise<number> {
  const startMs = performance.now();
  await work();
  return performance.now() - startMs;
}

function messageOf(index: number): object {
  return {
    text: `the thing with the number ${index}`,
    flag: true,
    small: index,
    ratio: index / 7,
    colour: "COLOUR_RED",
    texts: ["one", "two", "three"],
    inner: { text: "a thing in a thing", small: -1 },
  };
}

/** Returns items of 2 MB in total. */
function repeat(itemOf: (index: number) => object): object[] {
  const itemBytes = JSON.stringify(itemOf(1000)).length + 1;
  return Array.from({ length: Math.ceil((2 * MEGABYTE) / itemBytes) }, (_, index) => itemOf(index));
}

function echoOf(thing: object): Case {
  const body = Buffer.from(JSON.stringify(thing));
  const gateway = createGateway({
    routes: (router) =>
      router.service(ThingsService, {
        echoThing: (request) => (request.thing === undefined ? {} : { thing: request.thing }),
      }),
  });
  return { body, call: () => handle(gateway, { target: "/things/echo", body }) };
}

function flowsOf(): Case {
  const headers = { "service-api-version": "v2" };
  const body = Buffer.from(JSON.stringify({ flows: functionFlows(10_000) }));
  let flows: SetFlowsRequest["flows"] = [];
  const gateway = createGateway({
    routes: (router) =>
      router.service(FlowsService, {
        setFlows(request) {
          flows = request.flows;
          return {};
        },
        // Not frozen, so that it is encoded for each call.
        getFlows: () => ({ flows }),
      }),
  });
  return {
    body,
    async call() {
      await handle(gateway, { target: "/flows", headers, body });
      await handle(gateway, { target: "/flows", headers });
    },
  };
}
