import type { DescMethod } from "@bufbuild/protobuf";
import { describe, expect, test } from "vitest";
import { RulesService } from "../gen/gatewaytest/v1/invalid_pb.ts";
import { ThingsService } from "../gen/gatewaytest/v1/things_pb.ts";
import { compileRoutes, type RoutesOptions } from "../../src/routing/routes.ts";
import { formatTemplate } from "../../src/routing/template.ts";

type Rule = RoutesOptions["rules"][number];

const { call, other, noContent, watch, upload, chat, uploadRaw } = RulesService.method;
const get = (path: string, rule: Rule = {}): Rule => ({ ...rule, pattern: { case: "get", value: path } });
const post = (path: string, body: string, rule: Rule = {}): Rule => ({
  ...rule,
  body,
  pattern: { case: "post", value: path },
});
const custom = (kind: string, path: string): Rule => ({ pattern: { case: "custom", value: { kind, path } } });

/** The routes that an external rule for one method is compiled to. */
const compile = (method: DescMethod, rule: Rule): string[] =>
  lines([method], [{ ...rule, selector: `${method.parent.typeName}.${method.name}` }]);

function lines(methods: readonly DescMethod[], rules: readonly Rule[]): string[] {
  return compileRoutes(methods, { rules, strictTemplates: false, googleTemplates: false }).map(
    ({ method, httpMethod, template, pathFields, variants: [{ body, responseBody }] }) =>
      [
        `${method.name}: ${httpMethod} ${formatTemplate(template)}`,
        ...pathFields.map((fields) => `path ${fields.map(({ name }) => name).join(".")}`),
        ...(body === "" ? [] : [`body ${body}`]),
        ...(responseBody === "" ? [] : [`response_body ${responseBody}`]),
      ].join(", "),
  );
}

describe("a rule", () => {
  test.each<[DescMethod, Rule, string[]]>([
    [call, get("/v1/{name}"), ["Call: GET /v1/{name}, path name"]],
    [
      call,
      get("/v1/{inner.inner.name=a/*}/{at}/{left}"),
      ["Call: GET /v1/{inner.inner.name=a/*}/{at}/{left}, path inner.inner.name, path at, path left"],
    ],
    [call, get("/{inner.left}/{right}"), ["Call: GET /{inner.left}/{right}, path inner.left, path right"]],
    [call, get("/{side.left}/{side.name}"), ["Call: GET /{side.left}/{side.name}, path side.left, path side.name"]],
    [call, post("/v1/{inner.name}", "inner"), ["Call: POST /v1/{inner.name}, path inner.name, body inner"]],
    [
      call,
      post("/v1", "*", { responseBody: "names", additionalBindings: [get("/v2/{name}"), post("/v3", "names")] }),
      ["Call: POST /v1, body *, response_body names", "Call: GET /v2/{name}, path name", "Call: POST /v3, body names"],
    ],
    [call, custom("LOCK", "/v1"), ["Call: LOCK /v1"]],
    [call, custom("*", "/v1"), ["Call: * /v1"]],
    [watch, get("/v1/{name}"), ["Watch: GET /v1/{name}, path name"]],
    [upload, post("/v1/{name}", "*"), ["Upload: POST /v1/{name}, path name, body *"]],
    [upload, post("/v1/{name}", "raw"), ["Upload: POST /v1/{name}, path name, body raw"]],
    [uploadRaw, post("/v1/{content_type}", "*"), ["UploadRaw: POST /v1/{content_type}, path content_type, body *"]],
    [chat, post("/v1", "inner"), ["Chat: POST /v1, body inner"]],
  ])("of %s, %j, is compiled to routes", (method, rule, expected) => {
    expect(compile(method, rule)).toEqual(expected);
  });

  const kinds = "gatewaytest.v1.Kinds";
  test.each<[DescMethod, Rule, string]>([
    [call, get("v1"), 'the template "v1" is invalid at character 1: it must begin with "/"'],
    [call, custom("A B", "/v1"), '"A B" is not a valid HTTP method'],
    [call, custom("", "/v1"), '"" is not a valid HTTP method'],
    [call, get("/{missing}"), `${kinds} has no field "missing"`],
    [call, get("/{inner.missing}"), `${kinds} has no field "missing"`],
    [
      call,
      get("/{names}"),
      `field ${kinds}.names can't be bound from a path: it must be a singular scalar, an enum, or a well-known type that is a string, number or boolean in JSON`,
    ],
    [
      call,
      get("/{wrapped}"),
      `field ${kinds}.wrapped can't be bound from a path: it must be a singular scalar, an enum, or a well-known type that is a string, number or boolean in JSON`,
    ],
    [
      call,
      get("/{labels}"),
      `field ${kinds}.labels can't be bound from a path: it must be a singular scalar, an enum, or a well-known type that is a string, number or boolean in JSON`,
    ],
    [
      call,
      get("/{inner}"),
      `field ${kinds}.inner can't be bound from a path: it must be a singular scalar, an enum, or a well-known type that is a string, number or boolean in JSON`,
    ],
    [
      call,
      get("/{struct}"),
      `field ${kinds}.struct can't be bound from a path: it must be a singular scalar, an enum, or a well-known type that is a string, number or boolean in JSON`,
    ],
    [call, get("/{name.a}"), `field ${kinds}.name is not a singular message, so "name.a" can't be resolved`],
    [call, get("/{labels.a}"), `field ${kinds}.labels is not a singular message, so "labels.a" can't be resolved`],
    [call, get("/{at.seconds}"), `field ${kinds}.at is not a singular message, so "at.seconds" can't be resolved`],
    [call, get("/{tag}"), `field ${kinds}.tag is bound from the header X-Tag, and can't be from the path too`],
    [
      call,
      get("/{name}/{name}"),
      'the template "/{name}/{name}" is invalid at character 9: the variable "name" is declared twice',
    ],
    [call, get("/{left}/{right}"), `the path binds two members of oneof ${kinds}.choice: left and right`],
    [call, get("/{side.name}/{left}"), `the path binds two members of oneof ${kinds}.choice: side and left`],
    [call, get("/{inner.left}/{inner.right}"), `the path binds two members of oneof ${kinds}.choice: left and right`],
    [call, post("/v1", "missing"), `${kinds} has no field "missing", which the rule names as the body`],
    [call, post("/v1", "inner.name"), `${kinds} has no field "inner.name", which the rule names as the body`],
    [call, post("/v1", "tag"), `field ${kinds}.tag is bound from the header X-Tag, and can't be the body too`],
    [call, post("/{name}", "name"), `field ${kinds}.name is bound from the path, and can't be the body too`],
    [
      call,
      get("/v1", { responseBody: "inner.name" }),
      `${kinds} has no field "inner.name" that can be the response_body`,
    ],
    [call, get("/v1", { additionalBindings: [{}] }), "its google.api.http rule has no pattern"],
    [
      call,
      get("/1", { additionalBindings: [get("/2", { additionalBindings: [get("/3")] })] }),
      "additional_bindings can't have additional_bindings of their own",
    ],
    [upload, get("/v1"), "a client stream must have a body"],
    [chat, get("/v1"), "a client stream must have a body"],
    [noContent, get("/v1"), "a server stream must have a response body"],
  ])("of %s, %j, is rejected", (method, rule, problem) => {
    expect(() => compile(method, rule)).toThrow(new Error(`can't serve ${method.toString()} over HTTP: ${problem}`));
  });
});

describe("rules outside of the .proto", () => {
  const { echoThing, getHeaders } = ThingsService.method;
  const service = "gatewaytest.v1.ThingsService";

  test("replace the method's rule; the last one applies", () => {
    expect(lines([echoThing, getHeaders], [])).toEqual([
      "EchoThing: POST /things/echo, body thing, response_body thing",
      "GetHeaders: GET /things/headers",
    ]);
    expect(
      lines(
        [echoThing, getHeaders, call],
        [
          get("/one", { selector: `${service}.EchoThing` }),
          get("/two", { selector: `${service}.EchoThing`, additionalBindings: [get("/three")] }),
          get("/four", { selector: "gatewaytest.v1.RulesService.Call" }),
        ],
      ),
    ).toEqual(["EchoThing: GET /two", "EchoThing: GET /three", "GetHeaders: GET /things/headers", "Call: GET /four"]);
  });

  test.each([[`${service}.*`], ["gatewaytest.v1.*"], ["gatewaytest.*"], ["*"]])(
    "%s selects by prefix, and a rule without a pattern removes rules",
    (selector) => {
      expect(lines([echoThing, getHeaders], [{ selector }])).toEqual([]);
      expect(lines([echoThing, getHeaders], [{ selector }, get("/a", { selector: `${service}.EchoThing` })])).toEqual([
        "EchoThing: GET /a",
      ]);
      expect(lines([echoThing], [get("/all", { selector })])).toEqual(["EchoThing: GET /all"]);
    },
  );

  test.each([[`${service}.Echo`], [service], ["EchoThing"], ["gatewaytest.v1.Things.*"], [`${service}.EchoThing.*`]])(
    "%s matches no method, which is an error",
    (selector) => {
      expect(() => lines([echoThing, call, other], [get("/a", { selector })])).toThrow(
        new Error(`the selector "${selector}" matches no registered RPC`),
      );
    },
  );

  test.each(["", `${service}.Get*`, "*.EchoThing", ".", `${service}.`, "**"])(
    "%j is not a valid selector",
    (selector) => {
      expect(() => lines([echoThing], [get("/a", { selector })])).toThrow(
        new Error(`the selector "${selector}" is neither the name of an RPC nor a prefix that ends with ".*"`),
      );
    },
  );
});

test("strictTemplates accepts the grammar of http.proto only", () => {
  const rules = [get("/a/**/b", { selector: "*" })];
  expect(compileRoutes([call], { rules, strictTemplates: false, googleTemplates: false })).toHaveLength(1);
  expect(() => compileRoutes([call], { rules, strictTemplates: true, googleTemplates: false })).toThrow(
    new Error(
      `can't serve ${call.toString()} over HTTP: the template "/a/**/b" is invalid at character 7: "**" must be the last segment`,
    ),
  );
});
