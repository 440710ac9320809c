import { create, toJson, type DescField, type JsonValue, type Message } from "@bufbuild/protobuf";
import { Code, ConnectError, type ConnectRouter } from "@connectrpc/connect";
import { describe, expect, test } from "vitest";
import { createFetchHandler } from "../src/adapters/fetch/index.ts";
import { createRestTransport } from "../src/client/index.ts";
import { createGateway, presets, type GatewayOptions } from "../src/index.ts";
import { bindingsOf, fieldsAt, type Binding } from "./bindings.ts";
import { callUnary, errorOf } from "./client/captured.ts";
import { complianceCases } from "./compliance.ts";
import { expand } from "./expand.ts";
import { formatQuery, formatText } from "./format-query.ts";
import {
  Color,
  ComplianceService,
  GetEnumResponseSchema,
  RepeatDataRequestSchema,
  RepeatDataResponseSchema,
  type RepeatDataRequest,
} from "./gen/gatewaytest/v1/compliance_pb.ts";
import { call, createRequest } from "./service.ts";

/** A number that is not in the enum, as from a newer server. */
const unknownColor = -4711 as Color;

function routes(router: ConnectRouter): void {
  const repeat = (request: RepeatDataRequest) => ({ request });
  const colorOf = (isUnknown = false) => (isUnknown ? unknownColor : Color.GREEN);
  router.service(ComplianceService, {
    repeatDataBody: repeat,
    repeatDataBodyInfo: repeat,
    repeatDataQuery: repeat,
    repeatDataSimplePath: repeat,
    repeatDataPathResource: repeat,
    repeatDataPathTrailingResource: repeat,
    repeatDataBodyPut: repeat,
    repeatDataBodyPatch: repeat,
    getEnum: (request) => ({ request, color: colorOf(request.unknown) }),
    verifyEnum(response) {
      if (response.color !== colorOf(response.request?.unknown)) {
        throw new ConnectError(`the color is ${response.color}`, Code.InvalidArgument);
      }
      return response;
    },
  });
}

/** How clients write names and enum values. */
type Form = { readonly useProtoFieldName: boolean; readonly enumAsInteger: boolean };

const forms = [true, false].flatMap((useProtoFieldName) =>
  [true, false].map((enumAsInteger): Form => ({ useProtoFieldName, enumAsInteger })),
);

/** Writes a message as the request of a binding. */
function createRequestOf(message: RepeatDataRequest, { httpMethod, template, body }: Binding, form: Form) {
  const nameOf = (field: DescField): string => (form.useProtoFieldName ? field.name : field.jsonName);
  const bound = new Set<string>();
  const path = expand(template, (fieldPath) => {
    const fields = fieldsAt(RepeatDataRequestSchema, fieldPath);
    bound.add(fields.map(nameOf).join("."));
    return textAt(message, fields, form);
  });
  if (body === "*") {
    return createRequest(httpMethod, path, stringify(toJson(RepeatDataRequestSchema, message, form)));
  }
  const query = formatQuery(RepeatDataRequestSchema, message, nameOf, form.enumAsInteger)
    .split("&")
    .filter((parameter) => {
      const name = decodeURIComponent(parameter.split("=")[0] ?? "");
      return !bound.has(name) && (body === "" || !name.startsWith(`${body}.`));
    })
    .join("&");
  const json = toJson(RepeatDataRequestSchema, message, form) as Record<string, JsonValue>;
  return createRequest(httpMethod, `${path}?${query}`, body === "" ? undefined : stringify(json[body]));
}

/** The text of a field in a path; empty if a message above it is not set. */
function textAt(message: Message, [field, ...rest]: readonly DescField[], form: Form): string {
  if (field === undefined) {
    return "";
  }
  const value = (message as Message & Record<string, unknown>)[field.localName];
  return rest.length === 0
    ? (formatText(field, value, form.enumAsInteger) ?? "")
    : value === undefined
      ? ""
      : textAt(value as Message, rest, form);
}

const stringify = (json: JsonValue | undefined): string => JSON.stringify(json);

/** The binding whose patterns the fields of a message match. */
function bindingOf(rpc: keyof typeof ComplianceService.method, message: RepeatDataRequest, form: Form): Binding {
  const fitting = bindingsOf(ComplianceService.method[rpc]).find(({ template }) =>
    [...template.matchAll(/\{([\w.]+)=([^}]+)\}/g)].every(([, path = "", pattern = ""]) => {
      const regExp = new RegExp(`^${pattern.replaceAll(/\*+/g, (wildcard) => (wildcard === "*" ? "[^/]+" : ".*"))}$`);
      return regExp.test(textAt(message, fieldsAt(RepeatDataRequestSchema, path), form));
    }),
  );
  if (fitting === undefined) {
    throw new Error("the message matches no binding");
  }
  return fitting;
}

const gateway = createGateway({ routes });

test.each(complianceCases)("%s takes %s in all forms of names and enums", async (rpc, _name, message) => {
  for (const form of forms) {
    const binding = bindingOf(rpc, message, form);
    const request = createRequestOf(message, binding, form);
    const { method, template } = gateway.match(request.httpMethod, request.target);
    expect(method).toBe(ComplianceService.method[rpc]);
    expect(template).toBe(binding.template);
    expect(await call({ gateway }, request)).toEqual({
      status: 200,
      body: toJson(RepeatDataResponseSchema, create(RepeatDataResponseSchema, { request: message })),
    });
  }
});

describe.each<[name: string, options: Partial<GatewayOptions>]>([
  ["the defaults", {}],
  ["proto names and numbers of enums", { jsonOptions: { useProtoFieldName: true, enumAsInteger: true } }],
  ...Object.entries(presets),
])("the REST transport and a server with %s", (_name, options) => {
  const handler = createFetchHandler({ ...options, routes });
  const templates: (string | undefined)[] = [];
  const transport = createRestTransport({
    baseUrl: "http://localhost",
    fetch: async (input, init) => {
      const request = new Request(input, init);
      templates.push(handler.match(request.method, request.url).template);
      return handler(request);
    },
  });

  test.each(complianceCases)("%s returns %s", async (rpc, _name, message) => {
    expect(await callUnary({ transport }, ComplianceService.method[rpc], message)).toEqual(
      create(RepeatDataResponseSchema, { request: message }),
    );
    const form: Form = { useProtoFieldName: true, enumAsInteger: false };
    expect(templates.at(-1)).toBe(bindingOf(rpc, message, form).template);
  });

  test.each([false, true])("an enum value returns and is accepted: unknown %s", async (unknown) => {
    const { getEnum, verifyEnum } = ComplianceService.method;
    const color = unknown ? unknownColor : Color.GREEN;
    const response = await callUnary({ transport }, getEnum, { unknown });
    expect(response).toEqual(create(GetEnumResponseSchema, { request: { unknown }, color }));
    // A query can't represent a message without values.
    const init = { color, ...(unknown && { request: { unknown } }) };
    expect(await callUnary({ transport }, verifyEnum, init)).toEqual(create(GetEnumResponseSchema, init));
    const error = await errorOf(callUnary({ transport }, verifyEnum, { ...init, color: Color.RED }));
    expect([error.code, error.rawMessage]).toEqual([Code.InvalidArgument, "the color is 1"]);
  });
});
