import type { DescService } from "@bufbuild/protobuf";
import { expect, test } from "vitest";
import * as invalid from "./gen/gatewaytest/v1/invalid_pb.ts";
import { createGateway } from "../src/index.ts";

test.each<[service: DescService, problem: RegExp]>([
  [
    invalid.TemplateService,
    /^can't serve rpc gatewaytest.v1.TemplateService.Call over HTTP: the template "\/v1\/{name" is invalid at character 10: the variable is not closed$/,
  ],
  [invalid.StreamService, /StreamService.*: a client stream must have a body/],
  [invalid.BodyService, /Plain has no field "missing", which the rule names as the body/],
  [invalid.ResponseBodyService, /Plain has no field "missing" that can be the response_body/],
  [invalid.AdditionalService, /additional_bindings can't have additional_bindings of their own/],
  [invalid.CustomService, /"PUT BACK" is not a valid HTTP method/],
  [
    invalid.ConflictService,
    /^POST \/v1\/things\/{name}:go of rpc .*ConflictService.CallTwo matches the same requests as \/v1\/{name=things\/\*}:go of rpc .*ConflictService.CallOne$/,
  ],
  [invalid.MediaService, /consumes: application\/xml is not supported for body: "\*"/],
  [invalid.VariantService, /no variant has the default value "v3"/],
  [invalid.FaultService, /Plain has no \(flowgate.gateway.v1.error\) option/],
  [invalid.EtagService, /Plain has no scalar field "missing" for the ETag/],
])("rejects at start-up %s", (service, problem) => {
  expect(() => createGateway({ routes: (router) => router.service(service, {}) })).toThrow(problem);
});
