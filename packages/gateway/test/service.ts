import {
  create,
  createFileRegistry,
  setExtension,
  type DescMessage,
  type DescMethodUnary,
  type Message,
  type MessageInitShape,
} from "@bufbuild/protobuf";
import { FileDescriptorProtoSchema, MethodOptionsSchema } from "@bufbuild/protobuf/wkt";
import { http } from "../gen/google/api/annotations_pb.ts";
import { HttpRuleSchema } from "../gen/google/api/http_pb.ts";
import { method as methodExtension, MethodRuleSchema } from "../gen/flowgate/gateway/v1/annotations_pb.ts";
import { createGateway, type Gateway, type GatewayOptions } from "../src/index.ts";
import type { GatewayRequest } from "../src/http/request.ts";

/** Creates an RPC with this request and response message and this rule, without a .proto file. */
export function createMethod(
  message: DescMessage,
  rule: MessageInitShape<typeof HttpRuleSchema>,
  more: MessageInitShape<typeof MethodRuleSchema> = {},
): DescMethodUnary {
  const options = create(MethodOptionsSchema);
  setExtension(options, methodExtension, create(MethodRuleSchema, more));
  setExtension(options, http, create(HttpRuleSchema, rule));
  const type = `.${message.typeName}`;
  const file = create(FileDescriptorProtoSchema, {
    name: "echo.proto",
    package: "echo.v1",
    syntax: "proto3",
    dependency: [message.file.proto.name],
    service: [{ name: "EchoService", method: [{ name: "Echo", inputType: type, outputType: type, options }] }],
  });
  const registry = createFileRegistry(file, (name) => (name === message.file.proto.name ? message.file : undefined));
  const method = registry.getService("echo.v1.EchoService")?.method["echo"];
  if (method === undefined) {
    throw new Error("the method was not built");
  }
  return method as DescMethodUnary;
}

/** A gateway with a single RPC that returns its request; `seen` has the messages that it received. */
export function createEcho(
  message: DescMessage,
  rule: MessageInitShape<typeof HttpRuleSchema>,
  options: Omit<GatewayOptions, "routes"> = {},
  more: MessageInitShape<typeof MethodRuleSchema> = {},
): { gateway: Gateway; seen: Message[] } {
  const seen: Message[] = [];
  const gateway = createGateway({
    ...options,
    routes: (router) =>
      router.rpc(createMethod(message, rule, more), (request: Message) => {
        seen.push(request);
        return request;
      }),
  });
  return { gateway, seen };
}

/** Creates a request as a server would pass it on. A string body is JSON. */
export function createRequest(
  httpMethod: string,
  target: string,
  body?: string | Uint8Array,
  contentType = "application/json",
): GatewayRequest {
  const bytes = Buffer.from(body ?? "");
  return {
    httpMethod,
    httpVersionMajor: 1,
    target,
    headers: body === undefined ? {} : { "content-type": contentType },
    url: () => `http://localhost${target}`,
    contextValues: () => undefined,
    onAbort: () => {},
    hasBody: () => body !== undefined,
    readBody: async () => bytes,
    async *streamBody() {
      yield bytes;
    },
  };
}

/** Calls, and returns status and parsed body. */
export async function call(
  { gateway }: { gateway: Gateway },
  request: GatewayRequest,
): Promise<{ status: number; body: unknown }> {
  const response = await gateway.handle(request);
  const text = Buffer.isBuffer(response.body) ? response.body.toString() : response.body;
  return {
    status: response.status,
    body: typeof text === "string" && text !== "" ? (JSON.parse(text) as unknown) : text,
  };
}
