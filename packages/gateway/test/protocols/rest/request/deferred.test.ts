import type { Message } from "@bufbuild/protobuf";
import { gzipSync } from "node:zlib";
import { describe, expect, test } from "vitest";
import { FlowsService, type SetFlowsRequest } from "../../../../../../gen/flowgate/v1/flows_pb.ts";
import {
  createRequestDecoder,
  createGateway,
  RequestError,
  takeEncodedRequest,
  type EncodedRequest,
  getEncodedRequest,
} from "../../../../src/index.ts";
import { createRequest } from "../../../service.ts";

const method = FlowsService.method.setFlows;
const v2 = { "service-api-version": "v2" };

type Posting = { readonly headers?: Readonly<Record<string, string>>; readonly target?: string };

/** Posts to /flows, with an implementation that passes its request to `set`, and returns the response. */
async function post(
  body: string | Uint8Array,
  set: (request: SetFlowsRequest) => void,
  { headers = {}, target = "/flows" }: Posting = {},
  deferred = [method],
) {
  const gateway = createGateway({
    deferred,
    routes: (router) =>
      router.service(FlowsService, {
        setFlows(request) {
          set(request);
          return { rev: "next" };
        },
      }),
  });
  const request = createRequest("POST", target, body);
  return gateway.handle({ ...request, headers: { ...request.headers, ...headers } });
}

function take(request: Message): EncodedRequest {
  const undecoded = takeEncodedRequest(request);
  if (undecoded === undefined) {
    throw new Error("the request was decoded");
  }
  return undecoded;
}

const requests: [name: string, body: string | Uint8Array, posting?: Posting][] = [
  ["a field as the body", '[{"id":"a","type":"t","x":1}]'],
  ["the whole message", '{"flows":[{"id":"a","type":"t"}],"rev":"r"}', { headers: v2 }],
  ["headers", "[]", { headers: { "if-match": '"r"', "service-deployment-type": "nodes" } }],
  ["a compressed body", gzipSync('{"flows":[]}'), { headers: { ...v2, "content-encoding": "gzip" } }],
];

describe("a deferred request", () => {
  test.each(requests)("is the same message when it is read: %s", async (_name, body, posting) => {
    const seen: SetFlowsRequest[] = [];
    await post(body, (request) => seen.push(request), posting, []);
    await post(body, (request) => seen.push({ ...request }), posting);
    expect(getEncodedRequest(seen[0] as Message)).toBeUndefined();
    expect(seen[1]).toEqual(seen[0]);
    expect(seen).toHaveLength(2);
  });

  test.each(requests)(
    "is the same message when it is decoded with createRequestDecoder: %s",
    async (_name, body, posting) => {
      const expected: SetFlowsRequest[] = [];
      await post(body, (request) => expected.push(request), posting, []);
      const taken: EncodedRequest[] = [];
      await post(body, (request) => taken.push(structuredClone(take(request))), posting);
      const [{ bytes, format } = {}] = taken;
      expect(await createRequestDecoder(method)(bytes as Uint8Array, format as never)).toEqual(expected[0]);
    },
  );

  test("can be taken once, and can't be read afterwards", async () => {
    await post("[]", (request) => {
      take(request);
      expect(() => request.flows).toThrow("the encoded request was taken");
      expect(takeEncodedRequest(request)).toBeUndefined();
    });
    expect.assertions(2);
  });

  test("is decoded when a field is set, and can't be taken afterwards", async () => {
    await post("[]", (request) => {
      request.rev = "mine";
      expect(getEncodedRequest(request)).toBeUndefined();
      expect(request).toMatchObject({ rev: "mine", flows: [] });
    });
    expect.assertions(2);
  });

  test("without a body is decoded", async () => {
    await post("ignored", (request) => expect(getEncodedRequest(request)).toBeUndefined(), {
      headers: { "service-deployment-type": "reload" },
    });
    expect.assertions(1);
  });
});

const invalidRequests: [name: string, body: string, posting?: Posting][] = [
  ["no JSON", '[{"id":]'],
  ["a repeated key", '[{"id":"a","id":"b","type":"t"}]'],
  ["a value of the wrong type", '[{"id":7,"type":"t"}]'],
  ["an unknown field", '{"flows":[],"what":1}', { headers: v2 }],
  ["an unknown parameter", "[]", { target: "/flows?a=1" }],
  ["two revisions", '{"flows":[],"rev":"one"}', { headers: { ...v2, "if-match": '"two"' } }],
];

describe("an invalid deferred request", () => {
  test.each(invalidRequests)(
    "has the same error response as one that is not deferred: %s",
    async (_name, body, posting) => {
      const expected = await post(body, () => {}, posting, []);
      expect(expected.status).toBe(400);
      expect(await post(body, (request) => void request.flows, posting)).toEqual(expected);
    },
  );

  test.each(invalidRequests)("is rejected by createRequestDecoder: %s", async (_name, body, posting) => {
    const expected = await post(body, () => {}, posting, []);
    const taken: EncodedRequest[] = [];
    await post(body, (request) => taken.push(take(request)), posting);
    const [{ bytes, format } = {}] = taken;
    const decoded = (async () => createRequestDecoder(method)(bytes as Uint8Array, format as never))();
    const error = (await decoded.catch((error: unknown) => error)) as RequestError;
    expect(error).toBeInstanceOf(RequestError);
    expect(JSON.parse(expected.body as string)).toMatchObject({ message: error.message });
  });
});
