import { FlowsService, type SetFlowsRequest } from "../gen/flowgate/v1/flows_pb.ts";
import { ThingsService } from "../gen/transcodingtest/v1/things_pb.ts";
import { createTranscoder, type Transcoder, type TranscodingRequest } from "../src/transcoding/index.ts";
import type { Benchmark } from "./benchmark.ts";
import { functionFlows } from "./flows.ts";
import { median } from "./statistics.ts";

const MEGABYTE = 1024 * 1024;

/** A body of 2 MB, and the call that reads it and answers it. */
type Case = { readonly body: Buffer; readonly call: () => Promise<unknown> };

export const largeBody: Benchmark = {
  name: "transcoded-body",
  title: "reading and writing a body of 2 MB, beside JSON.parse and JSON.stringify of it; of several kinds the worst",
  goal: { kind: "atMost", value: 1.5, unit: "x" },
  async run({ starts, rounds }) {
    const cases: [name: string, made: Case][] = [
      ["messages of 24 fields, 7 of them set", echoOf({ things: repeat(messageOf) })],
      ["a Struct", echoOf({ struct: { items: repeat(messageOf) } })],
      ["a flow configuration", flowsOf()],
    ];
    const results = [];
    for (const [name, { body, call }] of cases) {
      const ours: number[] = [];
      const theirs: number[] = [];
      const warm = 5;
      for (let round = 0; round < warm + starts * rounds; round++) {
        const [transcoded, plain] = [await msOf(call), await msOf(() => JSON.stringify(JSON.parse(body.toString())))];
        if (round >= warm) {
          ours.push(transcoded);
          theirs.push(plain);
        }
      }
      results.push({ name, body, ours, theirs, ratio: median(ours.map((each, at) => each / (theirs[at] ?? each))) });
    }
    return {
      value: Math.max(...results.map(({ ratio }) => ratio)),
      rows: results.map(({ name, body, ours, theirs, ratio }) => ({
        "": name,
        MB: (body.length / MEGABYTE).toFixed(1),
        transcoder: `${median(ours).toFixed(1)} ms`,
        JSON: `${median(theirs).toFixed(1)} ms`,
        ratio: ratio.toFixed(2),
      })),
    };
  },
};

async function msOf(work: () => unknown): Promise<number> {
  const begun = performance.now();
  await work();
  return performance.now() - begun;
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

/** As many as make 2 MB. */
function repeat(itemOf: (index: number) => object): object[] {
  const itemBytes = JSON.stringify(itemOf(1000)).length + 1;
  return Array.from({ length: Math.ceil((2 * MEGABYTE) / itemBytes) }, (_, index) => itemOf(index));
}

function echoOf(thing: object): Case {
  const body = Buffer.from(JSON.stringify(thing));
  const transcoder = createTranscoder({
    routes: (router) =>
      router.service(ThingsService, {
        echoThing: (request) => (request.thing === undefined ? {} : { thing: request.thing }),
      }),
  });
  return { body, call: () => send(transcoder, "/things/echo", body) };
}

function flowsOf(): Case {
  const body = Buffer.from(JSON.stringify({ flows: functionFlows(10_000) }));
  let flows: SetFlowsRequest["flows"] = [];
  const transcoder = createTranscoder({
    routes: (router) =>
      router.service(FlowsService, {
        setFlows(request) {
          flows = request.flows;
          return {};
        },
        // Not frozen: it is encoded each time.
        getFlows: () => ({ flows }),
      }),
  });
  return {
    body,
    async call() {
      await send(transcoder, "/flows", body);
      await send(transcoder, "/flows", undefined);
    },
  };
}

async function send(transcoder: Transcoder, target: string, body: Buffer | undefined): Promise<void> {
  const headers: TranscodingRequest["headers"] = { "service-api-version": "v2" };
  if (body !== undefined) {
    headers["content-type"] = "application/json";
  }
  const { status } = await transcoder.handle({
    httpMethod: body === undefined ? "GET" : "POST",
    httpVersionMajor: 1,
    target,
    headers,
    url: () => `http://localhost${target}`,
    contextValues: () => undefined,
    onAbort: () => {},
    hasBody: () => body !== undefined,
    readBody: async () => body ?? Buffer.alloc(0),
    async *streamBody() {},
  });
  if (status !== 200) {
    throw new Error(`${target}: ${status}`);
  }
}
