import { setTimeout } from "node:timers/promises";
import { create, createRegistry } from "@bufbuild/protobuf";
import { type Any, anyPack } from "@bufbuild/protobuf/wkt";
import { ConnectError, type ConnectRouter, type HandlerContext, type ServiceImpl } from "@connectrpc/connect";
import { codeFromString } from "@connectrpc/connect/protocol-connect";
import { CodeSchema } from "../../gen/connectrpc/conformance/v1/config_pb.ts";
import {
  BidiStreamRequestSchema,
  ClientStreamRequestSchema,
  type ConformancePayload_RequestInfo,
  ConformancePayload_RequestInfoSchema,
  ConformanceService,
  type Error as ErrorDefinition,
  file_connectrpc_conformance_v1_service,
  type Header,
  IdempotentUnaryRequestSchema,
  ServerStreamRequestSchema,
  type StreamResponseDefinition,
  type UnaryResponseDefinition,
  UnaryRequestSchema,
} from "../../gen/connectrpc/conformance/v1/service_pb.ts";

// Responses contain requests as google.protobuf.Any.
const registry = createRegistry(file_connectrpc_conformance_v1_service);

/** ConformanceService as service.proto describes it. */
export function registerConformanceService(router: ConnectRouter): void {
  router.service(ConformanceService, implementation, { jsonOptions: { registry } });
}

/** Without `Unimplemented`, as the suite requires. */
const implementation: Partial<ServiceImpl<typeof ConformanceService>> = {
  async unary(request, context) {
    const { responseDefinition } = request;
    return { payload: await respond(responseDefinition, [anyPack(UnaryRequestSchema, request)], context) };
  },

  async idempotentUnary(request, context) {
    const { responseDefinition } = request;
    return { payload: await respond(responseDefinition, [anyPack(IdempotentUnaryRequestSchema, request)], context) };
  },

  async clientStream(requests, context) {
    let definition: UnaryResponseDefinition | undefined;
    const received: Any[] = [];
    for await (const request of requests) {
      if (received.length === 0) {
        definition = request.responseDefinition;
      }
      received.push(anyPack(ClientStreamRequestSchema, request));
    }
    return { payload: await respond(definition, received, context) };
  },

  async *serverStream(request, context) {
    const { responseDefinition } = request;
    setMetadata(responseDefinition, context);
    yield* respondInTurn(responseDefinition, 0, [anyPack(ServerStreamRequestSchema, request)], context);
  },

  async *bidiStream(requests, context) {
    let definition: StreamResponseDefinition | undefined;
    let isFullDuplex = false;
    let isFirst = true;
    let sent = 0;
    let received: Any[] = [];
    for await (const request of requests) {
      received.push(anyPack(BidiStreamRequestSchema, request));
      if (isFirst) {
        isFirst = false;
        definition = request.responseDefinition;
        isFullDuplex = request.fullDuplex;
        setMetadata(definition, context);
      }
      if (!isFullDuplex) {
        continue;
      }
      const data = definition?.responseData[sent];
      if (definition === undefined || data === undefined) {
        break;
      }
      const requestInfo =
        sent === 0 ? describe(received, context) : create(ConformancePayload_RequestInfoSchema, { requests: received });
      await wait(definition.responseDelayMs, context.signal);
      yield { payload: { data, requestInfo } };
      sent++;
      received = [];
    }
    yield* respondInTurn(definition, sent, received, context);
  },
};

async function respond(definition: UnaryResponseDefinition | undefined, received: Any[], context: HandlerContext) {
  const requestInfo = describe(received, context);
  if (definition === undefined) {
    return { requestInfo };
  }
  setMetadata(definition, context);
  await wait(definition.responseDelayMs, context.signal);
  const { response } = definition;
  if (response.case === "error") {
    throw errorOf(response.value, requestInfo);
  }
  return response.case === undefined ? { requestInfo } : { data: response.value, requestInfo };
}

/** Yields the responses from `sent` on, then throws the error. The first response contains the received request. */
async function* respondInTurn(
  definition: StreamResponseDefinition | undefined,
  sent: number,
  received: Any[],
  context: HandlerContext,
) {
  if (definition === undefined) {
    return;
  }
  let requestInfo = sent === 0 ? describe(received, context) : undefined;
  for (const data of definition.responseData.slice(sent)) {
    await wait(definition.responseDelayMs, context.signal);
    yield { payload: { data, ...(requestInfo && { requestInfo }) } };
    requestInfo = undefined;
  }
  if (definition.error !== undefined) {
    throw errorOf(definition.error, requestInfo);
  }
}

function setMetadata(
  definition: Pick<UnaryResponseDefinition, "responseHeaders" | "responseTrailers"> | undefined,
  { responseHeader, responseTrailer }: HandlerContext,
): void {
  append(responseHeader, definition?.responseHeaders);
  append(responseTrailer, definition?.responseTrailers);
}

function append(target: Headers, headers: readonly Header[] = []): void {
  for (const { name, value: values } of headers) {
    for (const value of values) {
      target.append(name, value);
    }
  }
}

function describe(requests: Any[], context: HandlerContext): ConformancePayload_RequestInfo {
  const timeoutMs = context.timeoutMs();
  return create(ConformancePayload_RequestInfoSchema, {
    requests,
    requestHeaders: toHeaders(context.requestHeader),
    ...(timeoutMs !== undefined && { timeoutMs: BigInt(Math.max(0, Math.trunc(timeoutMs))) }),
    ...(context.requestMethod === "GET" && {
      connectGetInfo: { queryParams: toHeaders(new URL(context.url).searchParams) },
    }),
  });
}

function toHeaders(entries: Iterable<[string, string]>): { name: string; value: string[] }[] {
  return Array.from(entries, ([name, value]) => ({ name, value: [value] }));
}

function errorOf(
  { code, message = "", details }: ErrorDefinition,
  requestInfo: ConformancePayload_RequestInfo | undefined,
): ConnectError {
  const error = new ConnectError(message, codeFromString(CodeSchema.value[code]?.localName.toLowerCase() ?? ""));
  // The details of the definition are forwarded unchanged.
  error.details = details.map(({ typeUrl, value }) => ({ type: typeUrl.replace(/^.*\//, ""), value }));
  if (requestInfo !== undefined) {
    error.details.push({ desc: ConformancePayload_RequestInfoSchema, value: requestInfo });
  }
  return error;
}

/** Rejects with the reason for which the call was aborted, such as its deadline. */
async function wait(delayMs: number, signal: AbortSignal): Promise<void> {
  await setTimeout(delayMs, undefined, { signal }).catch(() => signal.throwIfAborted());
}
