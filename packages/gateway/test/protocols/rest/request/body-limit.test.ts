import { gzipSync } from "node:zlib";
import { expect, test } from "vitest";
import { RulesService } from "../../../gen/gatewaytest/v1/invalid_pb.ts";
import { openapi, type GatewayOptions } from "../../../../src/index.ts";
import { json, serve } from "../../../serve.ts";

const selector = "gatewaytest.v1.RulesService.Call";
const rule = { selector, pattern: { case: "post", value: "/v1/call" }, body: "*" } as const;

function options(readMaxBytes: number, more: Partial<GatewayOptions> = {}): GatewayOptions {
  return {
    routes: (router) => router.service(RulesService, { call: ({ name }) => ({ name }) }),
    rules: [{ ...rule, options: { maxBodyBytes: readMaxBytes } }],
    ...more,
  };
}

const body = JSON.stringify({ name: "x".repeat(100) });

test.each<[what: string, options: GatewayOptions, status: number, most?: number]>([
  ["a method that takes less", options(50), 413, 50],
  ["a method that takes enough", options(200), 200],
  ["a method that says nothing", options(0), 200],
  ["a server that takes less than its method", options(200, { readMaxBytes: 60 }), 413, 60],
])("%s", async (_what, given, status, most) => {
  await using server = await serve(given);
  const replies = await Promise.all([
    server.send("POST", "/v1/call", { headers: json, body }),
    server.send("POST", "/v1/call", { headers: { ...json, "content-encoding": "gzip" }, body: gzipSync(body) }),
  ]);
  expect(replies.map((reply) => reply.status)).toEqual([status, status]);
  expect(replies.map((reply) => reply.body.includes(`larger than ${most} bytes`))).toEqual([
    status === 413,
    status === 413,
  ]);
});

test("is in the OpenAPI document", () => {
  const described = (maxBodyBytes: number) => JSON.stringify(openapi(options(maxBodyBytes), { info }));
  const info = { title: "t", version: "1" };
  expect(described(50)).toContain("At most 50 bytes; a larger body is rejected with 413.");
  expect(described(0)).not.toContain("is rejected with 413.");
});
