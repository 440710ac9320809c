import type { DescMethod, Message } from "@bufbuild/protobuf";
import { createBinder } from "./rest/request/bind.ts";
import { routeName, createVariantSelector } from "../routing/route.ts";
import { compileRoutes } from "../routing/routes.ts";
import type { HttpFormat, RequestFormat } from "../call/deferred.ts";
import { checkOptions } from "../options/check-options.ts";
import { gatewayOptionChecks } from "../options/option-checks.ts";
import { completeOptions, type CompleteGatewayOptions, type GatewayOptions } from "../options/options.ts";
import type { GatewayRequest } from "../http/request.ts";
import { createCodecs } from "./rpc/codec.ts";

/** Decodes an encoded request. Throws, or rejects with, a RequestError as the gateway would. */
export type RequestDecoder = (bytes: Uint8Array, format: RequestFormat) => Message | Promise<Message>;

/**
 * Compiles the decoder of a method's requests, for use in another thread. The options that concern requests must equal
 * the gateway's.
 */
export function createRequestDecoder(
  method: DescMethod,
  given: Omit<GatewayOptions, "routes" | "deferred"> = {},
): RequestDecoder {
  const all: GatewayOptions = { ...given, routes() {} };
  checkOptions(all, gatewayOptionChecks);
  const options = completeOptions(all, [method]);
  const decodeHttp = createHttpDecoder(method, options);
  const { json, proto } = createCodecs(method, options);
  return (bytes, format) => {
    switch (format.kind) {
      case "http":
        return decodeHttp(bytes, format);
      case "json":
        return json.decode(bytes);
      case "proto":
        return proto.decode(bytes);
    }
  };
}

function createHttpDecoder(
  method: DescMethod,
  options: CompleteGatewayOptions,
): (bytes: Uint8Array, format: HttpFormat) => Message | Promise<Message> {
  const operations = new Map(
    compileRoutes([method], options).map((route) => [
      routeName(route),
      createVariantSelector(
        route.method,
        route.variants.map((variant) => [variant.value, createBinder(route, variant, options)]),
      ),
    ]),
  );
  return (bytes, { route, httpMethod, target, headers, pathVariables }) => {
    const select = operations.get(route);
    if (select === undefined) {
      throw new Error(`${method.toString()} has no route ${route}`);
    }
    const { "content-encoding": _, ...others } = headers;
    const request: GatewayRequest = {
      httpMethod,
      httpVersionMajor: 1,
      target,
      headers: others,
      hasBody: () => true,
      readBody: async () => bytes,
      async *streamBody() {
        yield bytes;
      },
      url: () => target,
      contextValues: () => undefined,
      onAbort() {},
    };
    return select(headers)(request, pathVariables);
  };
}
