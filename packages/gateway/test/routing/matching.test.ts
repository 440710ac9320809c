import { expect, test } from "vitest";
import { RulesService } from "../gen/gatewaytest/v1/invalid_pb.ts";
import { createGateway, type Gateway, type GatewayOptions } from "../../src/index.ts";
import { formatTemplate } from "../../src/routing/template.ts";
import { serve } from "../serve.ts";
import { call, createRequest } from "../service.ts";

const service = "gatewaytest.v1.RulesService";

const rules: NonNullable<GatewayOptions["rules"]> = [
  {
    selector: `${service}.Call`,
    pattern: { case: "get", value: "/v1/{name}" },
    responseBody: "name",
    additionalBindings: [
      { pattern: { case: "get", value: "/v1/**:all" }, responseBody: "name" },
      { pattern: { case: "custom", value: { kind: "*", path: "/any/{name=**}" } }, responseBody: "name" },
    ],
  },
  { selector: `${service}.Other`, pattern: { case: "post", value: "/v1/x" }, body: "*", responseBody: "name" },
];

const routes: GatewayOptions["routes"] = (router) =>
  router.service(RulesService, {
    call: ({ name }) => ({ name: `call ${name}` }),
    other: ({ name }) => ({ name: `other ${name}` }),
  });

function createRules(): { gateway: Gateway } {
  return { gateway: createGateway({ routes, rules }) };
}

test("all routes are listed, in the order of the rules", () => {
  expect(
    createRules().gateway.routes.map(
      ({ method, httpMethod, template }) => `${method.name} ${httpMethod} ${formatTemplate(template)}`,
    ),
  ).toEqual(["Call GET /v1/{name}", "Call GET /v1/**:all", "Call * /any/{name=**}", "Other POST /v1/x"]);
});

test.each([
  ["GET", "/v1/x", "call x"],
  ["GET", "/v1/x?", "call x"],
  ["GET", "/v1/a%2Fb%252F", "call a/b%2F"],
  ["GET", "/v1/x:all", "call "],
  ["GET", "/v1/x%3Aall", "call x:all"],
  ["PURGE", "/any/a/b%2Fc%20d", "call a/b%2Fc d"],
  ["OPTIONS", "/any", "call "],
  // RFC 9112, section 3.2.2: every server takes the absolute form.
  ["GET", "http://example.com:80/v1/x", "call x"],
  ["GET", "HTTPS://example.com/v1/x?", "call x"],
])("%s %s is routed", async (method, target, body) => {
  expect(await call(createRules(), createRequest(method, target))).toEqual({ status: 200, body });
});

test.each([
  ["GET", "/v1"],
  ["GET", "/v1/"],
  ["GET", "//v1/x"],
  ["GET", "/v1/x/"],
  ["GET", "/v1/x/y"],
  ["OPTIONS", "/v2"],
  ["OPTIONS", "*"],
  ["GET", "http://example.com"],
  ["GET", "http://example.com?/v1/x"],
  ["GET", "ftp://example.com/v1/x"],
  ["GET", ""],
])("%s %s matches no operation", async (method, target) => {
  expect(await call(createRules(), createRequest(method, target))).toEqual({
    status: 404,
    body: { code: "not_found", message: "no operation has this path" },
  });
});

test("405 and OPTIONS have the methods of every template that matches", async () => {
  const allow = "POST, GET, HEAD, OPTIONS";
  const { gateway } = createRules();
  expect(await gateway.handle(createRequest("PUT", "/v1/x"))).toMatchObject({
    status: 405,
    headers: { allow },
    body: `{"code":"unimplemented","message":"this path allows ${allow}","reason":"method_not_allowed"}`,
  });
  expect(await gateway.handle(createRequest("OPTIONS", "/v1/x"))).toEqual({
    status: 204,
    headers: { allow },
    body: undefined,
  });
});

test.each(["/v1/%zz", "/v1/%ff", "/v1/a%2", "/v1/%ff:all"])("%s is a request error", async (target) => {
  expect(await call(createRules(), createRequest("GET", target))).toMatchObject({
    status: 400,
    body: { code: "invalid_argument" },
  });
});

test("HEAD has the response of GET, or of any method, without the body", async () => {
  await using server = await serve({ routes, rules });
  for (const path of ["/v1/x", "/any/x"]) {
    const get = await server.send("GET", path);
    const head = await server.send("HEAD", path);
    expect(head).toMatchObject({ status: 200, body: "", headers: { "content-length": "8" } });
    expect(get).toMatchObject({ status: 200, body: '"call x"', headers: { "content-length": "8" } });
  }
});

test("external rules add and remove operations", () => {
  expect(createGateway({ routes }).routes).toEqual([]);
  expect(createGateway({ routes, rules: [...rules, { selector: "*" }] }).routes).toEqual([]);
});

test("external options replace those of the .proto, with an external rule or that of the method", async () => {
  const optioned: GatewayOptions["rules"] = [
    ...rules,
    { selector: `${service}.*`, options: { headers: [{ name: "X-All", value: "1" }] } },
    { selector: `${service}.Other`, options: { status: 201 } },
  ];
  const gated: unknown[] = [];
  await using server = await serve({
    routes,
    rules: optioned,
    // A gate must be able to look up the method as it was registered.
    requestGate: ({ method }) => void gated.push(method === RulesService.method.other),
  });
  const json = { "content-type": "application/json" };
  const other = await server.send("POST", "/v1/x", { headers: json, body: '{"name":"x"}' });
  expect(other).toMatchObject({ status: 201, body: '"other x"' });
  expect(other.headers["x-all"]).toBeUndefined();
  expect(await server.send("GET", "/v1/x")).toMatchObject({ status: 200, headers: { "x-all": "1" } });
  expect(gated).toEqual([true, false]);
});

test("an RPC that is registered twice is rejected", () => {
  expect(() =>
    createGateway({
      rules,
      routes: (router) => {
        routes(router);
        router.rpc(RulesService.method.other, () => ({}));
      },
    }),
  ).toThrow(new Error(`POST /v1/x of rpc ${service}.Other matches the same requests as /v1/x of rpc ${service}.Other`));
});
