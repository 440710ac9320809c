import type { DescMessage, DescMethod, DescService, MessageInitShape } from "@bufbuild/protobuf";
import type { HttpRuleSchema } from "../../gen/google/api/http_pb.ts";
import type { MethodRuleSchema } from "../../gen/flowgate/gateway/v1/annotations_pb.ts";
import { StreamsService } from "../gen/gatewaytest/v1/streams_pb.ts";
import { openapi, type OpenApiDocument, type OpenApiOptions, type GatewayOptions } from "../../src/index.ts";
import type { OperationObject, ParameterObject } from "../../src/openapi/document.ts";
import { createMethod } from "../service.ts";

export type Rule = MessageInitShape<typeof HttpRuleSchema>;
export const info = { title: "Things", version: "1" };

export function describeService(
  service: DescService,
  handler: Partial<GatewayOptions> = {},
  options: Partial<OpenApiOptions> = {},
): OpenApiDocument {
  return openapi({ routes: (router) => router.service(service, {}), ...handler }, { info, ...options });
}

export function describeMethods(methods: DescMethod[], options: Partial<OpenApiOptions> = {}): OpenApiDocument {
  return openapi(
    { routes: (router) => methods.forEach((method) => router.rpc(method as never, (() => ({})) as never)) },
    { info, ...options },
  );
}

/** A document of one RPC with this request and response message. */
export function describeRule(message: DescMessage, rule: Rule, more: MessageInitShape<typeof MethodRuleSchema> = {}) {
  return describeMethods([createMethod(message, rule, more)]);
}

export const withoutSum = { rules: [{ selector: `${StreamsService.typeName}.Sum` }], protocols: ["rest"] } as const;

/** The reference to an enum. */
export const openEnum = { $ref: "#/components/schemas/EnumValue" };

export const get = (value: string) => ({ pattern: { case: "get", value } }) as const satisfies Rule;
export const post = (value: string, body: string) =>
  ({ pattern: { case: "post", value }, body }) as const satisfies Rule;

export function operationsOf(document: OpenApiDocument): [place: string, operation: OperationObject][] {
  return Object.entries(document.paths).flatMap(([path, item]) =>
    Object.entries(item).map(([method, operation]): [string, OperationObject] => [
      `${method.toUpperCase()} ${path}`,
      operation as OperationObject,
    ]),
  );
}

export function only(document: OpenApiDocument): OperationObject {
  const [operation, another] = operationsOf(document);
  if (operation === undefined || another !== undefined) {
    throw new Error("not one operation");
  }
  return operation[1];
}

export const parametersOf = (document: OpenApiDocument, where: ParameterObject["in"]) =>
  Object.fromEntries(
    (only(document).parameters ?? [])
      .filter((each) => each.in === where)
      .map(({ name, in: _where, ...rest }) => [name, rest]),
  );
