import { brotliCompressSync, gzipSync, zstdCompressSync } from "node:zlib";
import { Code, ConnectError } from "@connectrpc/connect";
import { describe, expect, test } from "vitest";
import { FlowsService } from "../../../../../../gen/flowgate/v1/flows_pb.ts";
import { createGateway, type GatewayRequest } from "../../../../src/index.ts";
import { createRequest } from "../../../service.ts";

const KiB = 1024;

/** Posts flows of this size with a `reserve`, and returns the response and what was reserved. */
async function post(
  bytes: number,
  reserve: (bytes: number) => Promise<void> | undefined = () => undefined,
  { compress = (text: string): string | Uint8Array => text, encoding = "", readMaxBytes = 16 * KiB * KiB } = {},
) {
  const events: (number | string)[] = [];
  const gateway = createGateway({
    readMaxBytes,
    routes: (router) =>
      router.service(FlowsService, {
        setFlows({ flows }) {
          events.push(`${flows.length} decoded`);
          return { rev: "next" };
        },
      }),
  });
  const text = `[{"id":"a","type":"t"}]`.padEnd(bytes);
  const request: GatewayRequest = {
    ...createRequest("POST", "/flows", compress(text)),
    headers: { "content-type": "application/json", ...(encoding !== "" && { "content-encoding": encoding }) },
    reserve(wanted, body) {
      events.push(wanted);
      expect(body?.length ?? wanted).toBe(wanted);
      return reserve(wanted);
    },
  };
  return { response: await gateway.handle(request), events };
}

describe("reserve", () => {
  test("is not called for a body of up to 64 KiB, compressed or not", async () => {
    const small = [
      await post(64 * KiB),
      await post(64 * KiB, undefined, { compress: (text) => gzipSync(text), encoding: "gzip" }),
    ];
    expect(small.map(({ events }) => events)).toEqual([["1 decoded"], ["1 decoded"]]);
  });

  test("is called with the length of a larger one before it is decoded", async () => {
    expect((await post(100 * KiB)).events).toEqual([100 * KiB, "1 decoded"]);
  });

  test.each([
    ["gzip", (text: string) => gzipSync(text)],
    ["br", (text: string) => brotliCompressSync(text)],
    ["zstd", (text: string) => zstdCompressSync(text)],
  ] as const)("is called with growing sizes while a body in %s is decompressed", async (encoding, compress) => {
    const { response, events } = await post(1000 * KiB, undefined, { compress, encoding });
    expect(response.status).toBe(204);
    expect(events).toEqual([512 * KiB, 4096 * KiB, 1000 * KiB, "1 decoded"]);
  });

  test("does not exceed the limit of the body, which is reported as without it", async () => {
    const { response, events } = await post(1000 * KiB, undefined, {
      compress: (text) => gzipSync(text),
      encoding: "gzip",
      readMaxBytes: 600 * KiB,
    });
    expect([response.status, events]).toEqual([413, [512 * KiB, 600 * KiB]]);
  });

  test("delays the call", async () => {
    const { promise, resolve } = Promise.withResolvers<void>();
    const posting = post(100 * KiB, () => promise);
    resolve();
    expect((await posting).events).toEqual([100 * KiB, "1 decoded"]);
  });

  test("ends the call with its error", async () => {
    const busy = new ConnectError("busy", Code.Unavailable);
    const options = { compress: (text: string) => gzipSync(text), encoding: "gzip" };
    for (const given of [{}, options]) {
      const { response, events } = await post(100 * KiB, () => Promise.reject(busy), given);
      expect([response.status, events]).toEqual([503, [expect.any(Number)]]);
    }
  });
});
