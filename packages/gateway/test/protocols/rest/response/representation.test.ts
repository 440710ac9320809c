import { expect, test } from "vitest";
import type { GatewayRequest } from "../../../../src/http/request.ts";
import { createGateway, openapi } from "../../../../src/index.ts";
import { ReportSchema, WrongReportSchema } from "../../../gen/gatewaytest/v1/things_pb.ts";
import { createEcho, createMethod, createRequest } from "../../../service.ts";

const rule = { pattern: { case: "get", value: "/report" } } as const;
const target = "/report?name=n&text=The%20t%C3%A9xt.%0A";
function request(target: string, accept?: string): GatewayRequest {
  return { ...createRequest("GET", target), headers: accept === undefined ? {} : { accept } };
}

const json = { type: "application/json", body: '{"name":"n"}' };
const text = { type: "text/plain; charset=utf-8", body: "The téxt.\n" };

test.for<[accept: string | undefined, expected: typeof json]>([
  [undefined, json],
  ["", json],
  ["*/*", json],
  ["application/json", json],
  ["text/plain", text],
  ["TEXT/*", text],
  ["text/plain, application/json", json],
  ["text/plain, application/json;q=0.9", text],
  ["text/plain, */*", text],
  ["text/plain;q=0.1, */*", json],
  ["text/plain, */*;q=0", text],
])("Accept: %s", async ([accept, expected]) => {
  const { gateway } = createEcho(ReportSchema, rule);
  const response = await gateway.handle(request(target, accept));
  expect(response).toMatchObject({ status: 200, headers: { "content-type": expected.type, vary: "Accept" } });
  expect(response.body).toEqual(expected.body);
});

test("an empty field is an empty body", async () => {
  const { gateway } = createEcho(ReportSchema, rule);
  const response = await gateway.handle(request("/report?name=n", "text/plain"));
  expect(response).toMatchObject({ status: 200, headers: { "content-type": text.type }, body: "" });
});

test("406 names all media types", async () => {
  const { gateway } = createEcho(ReportSchema, rule);
  const response = await gateway.handle(request(target, "text/html"));
  expect(response).toMatchObject({ status: 406, headers: { vary: "Accept" } });
  expect(response.body).toContain("this operation responds with application/json or text/plain");
});

test("OpenAPI describes each representation", () => {
  const document = openapi(
    { routes: (router) => router.rpc(createMethod(ReportSchema, rule), () => ({})) },
    { info: { title: "Reports", version: "1" } },
  );
  expect(document.paths).toMatchObject({
    "/report": {
      get: {
        responses: {
          200: {
            content: {
              "application/json": { schema: { $ref: "#/components/schemas/Report" } },
              "text/plain": { schema: { type: "string" } },
            },
          },
        },
      },
    },
  });
  expect(document.components?.schemas?.["Report"]).toMatchObject({ properties: { name: { type: "string" } } });
  expect(document.components?.schemas?.["Report"]).not.toMatchObject({ properties: { text: {} } });
});

test.for([
  [
    WrongReportSchema,
    {},
    "field gatewaytest.v1.WrongReport.text: a field with the option media_type must be a singular string outside of oneofs",
  ],
  [
    ReportSchema,
    { etag: "name" },
    "field gatewaytest.v1.Report.text: the response of a method with an etag can't have a media_type",
  ],
] as const)("a rule that is not possible is an error at startup: %#", ([message, more, expected]) => {
  const method = createMethod(message, rule, more);
  expect(() => createGateway({ routes: (router) => router.rpc(method, () => ({})) })).toThrow(expected);
});
