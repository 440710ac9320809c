import type { DescMethod } from "@bufbuild/protobuf";
import { MethodOptions_IdempotencyLevel } from "@bufbuild/protobuf/wkt";
import { Code } from "@connectrpc/connect";
import { nameOfCode } from "../errors/codes.ts";
import { JSON_TYPE } from "../http/media-type.ts";
import { methodRule } from "../schema/rules.ts";
import { partialOf, type DocumentOperation, type OperationContext } from "./context.ts";
import type { Content, OperationObject, RequestBodyObject, Response, Schema } from "./document.ts";
import { createOperation } from "./operation.ts";
import { describeLimit } from "./request-body.ts";
import type { Schemas } from "./schema.ts";

/**
 * The operations of RPCs in the Connect protocol (https://connectrpc.com/docs/protocol), with JSON: POST, and also GET if they have no
 * side effects.
 */
export function listConnectOperations(methods: readonly DescMethod[], context: OperationContext): DocumentOperation[] {
  return methods.flatMap((method) => {
    const path = `/${method.parent.typeName}/${method.name}`;
    const describe = method.methodKind === "unary" ? describePost : describeStream;
    const post: DocumentOperation = {
      method,
      path,
      httpMethod: "POST",
      describe: (operationId) => describe(method, operationId, context),
    };
    const get: DocumentOperation = { ...post, httpMethod: "GET", describe: (id) => describeGet(method, id, context) };
    const isSafe = method.idempotency === MethodOptions_IdempotencyLevel.NO_SIDE_EFFECTS;
    return method.methodKind === "unary" && isSafe ? [post, get] : [post];
  });
}

function describePost(method: DescMethod, operationId: string, context: OperationContext): OperationObject {
  const { request } = schemasOf(method, context);
  const content = { [JSON_TYPE]: { schema: request } };
  const parts = { requestBody: requestBodyOf(method, content, context), responses: unaryResponses(method, context) };
  return createOperation(method, operationId, parts, context);
}

function describeGet(method: DescMethod, operationId: string, context: OperationContext): OperationObject {
  const parameters = [
    { name: "encoding", in: "query", required: true, schema: { type: "string", enum: ["json"] } },
    {
      name: "message",
      in: "query",
      description: "The request message.",
      required: true,
      content: { [JSON_TYPE]: { schema: schemasOf(method, context).request } },
    },
  ] as const;
  return createOperation(method, operationId, { parameters, responses: unaryResponses(method, context) }, context);
}

function describeStream(method: DescMethod, operationId: string, context: OperationContext): OperationObject {
  const { request, response } = schemasOf(method, context);
  const last = context.schemas.named("ConnectEndStream", endStream(context.schemas));
  const messages = method.methodKind === "server_streaming" ? "One message" : "Messages";
  const parts = {
    note: method.methodKind === "bidi_streaming" ? "Both streams at the same time need HTTP/2." : undefined,
    requestBody: requestBodyOf(method, envelopes(request, `${messages}.`), context),
    responses: {
      200: {
        description: "The stream. The status is 200 for errors, too.",
        content: envelopes(
          { anyOf: [response, last] },
          "Messages, and a last envelope with the flag 2, which has the error and the trailers.",
        ),
      },
    },
  };
  return createOperation(method, operationId, parts, context);
}

function schemasOf(method: DescMethod, { schemas, usesOf }: OperationContext): { request: Schema; response: Schema } {
  const { request, response } = usesOf(method, true);
  const open = methodRule(method).ignoreUnknown || request.json.ignoreUnknownFields;
  return {
    request: schemas.message(method.input, { ...request, open, partial: partialOf(method, false) }),
    response: schemas.message(method.output, response),
  };
}

function requestBodyOf(method: DescMethod, content: Content, context: OperationContext): RequestBodyObject {
  const limit = describeLimit(method, context);
  return { ...(limit === undefined ? {} : { description: limit }), required: true, content };
}

function unaryResponses(method: DescMethod, context: OperationContext): Record<string, Response> {
  const { response } = schemasOf(method, context);
  const error = context.schemas.named("ConnectError", connectError);
  return {
    200: { description: "Success.", content: { [JSON_TYPE]: { schema: response } } },
    default: { description: "An error.", content: { [JSON_TYPE]: { schema: error } } },
  };
}

/** A stream of messages in JSON. OpenAPI 3.1 can't describe its items; `x-itemSchema` is the `itemSchema` of 3.2. */
function envelopes(item: Schema, text: string): Content {
  const description = `${text} Each is in an envelope: a byte of flags, the length in 4 bytes (big-endian), and the JSON.`;
  return {
    "application/connect+json": { schema: { type: "string", format: "binary", description }, "x-itemSchema": item },
  };
}

const codes = Object.values(Code).filter((code): code is Code => typeof code === "number");

const connectError: Schema = {
  type: "object",
  description: "An error of the Connect protocol.",
  properties: {
    code: { type: "string", enum: codes.map(nameOfCode) },
    message: { type: "string", description: "The human-readable message." },
    details: {
      type: "array",
      items: {
        type: "object",
        properties: {
          type: { type: "string", description: "The full name of the message." },
          value: { type: "string", description: "The message in binary, as base64 without padding." },
          debug: { description: "The message in JSON, which not every server sends." },
        },
        required: ["type", "value"],
      },
    },
  },
  required: ["code"],
};

function endStream(schemas: Schemas): Schema {
  return {
    type: "object",
    description: "The end of a stream in the Connect protocol.",
    properties: {
      error: schemas.named("ConnectError", connectError),
      metadata: {
        type: "object",
        description: "The trailers.",
        additionalProperties: { type: "array", items: { type: "string" } },
      },
    },
  };
}
