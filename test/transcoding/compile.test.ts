import type { DescService } from "@bufbuild/protobuf";
import { expect, test } from "vitest";
import * as invalid from "../../gen/transcodingtest/v1/invalid_pb.ts";
import { createTranscoder } from "../../src/transcoding/index.ts";

test.each<[service: DescService, problem: RegExp]>([
  [invalid.TemplateService, /TemplateService.*"\/v1\/\{name\}": only literal segments are supported yet/],
  [invalid.StreamService, /StreamService.*streaming method is not supported yet/],
  [invalid.QueryService, /Plain.name would be bound from the query, which is not supported yet/],
  [invalid.BodyService, /Plain has no field "missing", which the rule names as the body/],
  [invalid.ResponseBodyService, /Plain has no field "missing" that can be the response_body/],
  [invalid.AdditionalService, /additional_bindings are not supported yet/],
  [invalid.CustomService, /a custom one, is not supported yet/],
  [invalid.ConflictService, /ConflictService.*CallTwo.*POST \/v1\/same leads to .*ConflictService.*CallOne already/],
  [invalid.FormService, /Plain.inner: a form can hold scalars and enums only/],
  [invalid.MediaService, /media type application\/xml is not supported yet/],
  [invalid.VariantService, /its variants have none for the default "v3"/],
  [invalid.FaultService, /Plain has no \(transcoding.v1.error\) option/],
  [invalid.EtagService, /Plain has no scalar field "missing" for the ETag/],
])("refuses at start-up %s", (service, problem) => {
  expect(() => createTranscoder({ routes: (router) => router.service(service, {}) })).toThrow(problem);
});
