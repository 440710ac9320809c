import { Code, ConnectError, type HandlerContext } from "@connectrpc/connect";
import { expect, test } from "vitest";
import { ThingSchema } from "./gen/gatewaytest/v1/things_pb.ts";
import { createGateway, type GatewayOptions } from "../src/index.ts";
import { createMethod, createRequest } from "./service.ts";

const method = createMethod(
  ThingSchema,
  { pattern: { case: "get", value: "/x" } },
  {
    headers: [
      { name: "Cache-Control", value: "no-store" },
      { name: "X-Rule", value: "rule" },
    ],
  },
);

/** The response headers of a method whose rule has two headers. */
async function headersOf(
  call: (context: HandlerContext) => Record<string, unknown>,
  more: Partial<GatewayOptions> = {},
) {
  const gateway = createGateway({
    ...more,
    routes: (router) => router.rpc(method, (_request, context) => call(context)),
  });
  return (await gateway.handle(createRequest("GET", "/x"))).headers;
}

const own = { "cache-control": "max-age=5", "content-type": "application/json", "x-rule": "rule" };

test("the headers of a rule are in every response", async () => {
  const expected = { ...own, "cache-control": "no-store" };
  const refuse = (): never => {
    throw new ConnectError("no", Code.PermissionDenied);
  };
  expect(await headersOf(() => ({}))).toEqual(expected);
  expect(await headersOf(refuse)).toEqual(expected);
  expect(await headersOf(() => ({}), { requestGate: refuse })).toEqual(expected);
});

test("a header that the implementation, an error or a gate sets overrides that of the rule", async () => {
  const set = ({ responseHeader }: HandlerContext): Record<string, unknown> => {
    responseHeader.set("Cache-Control", "max-age=5");
    return {};
  };
  const refuse = (): never => {
    throw new ConnectError("no", Code.PermissionDenied, { "Cache-Control": "max-age=5" });
  };
  expect(await headersOf(set)).toEqual(own);
  expect(await headersOf(() => ({}), { requestGate: (context) => void set(context) })).toEqual(own);
  expect(await headersOf(refuse)).toEqual(own);
});
