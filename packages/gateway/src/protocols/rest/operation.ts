import type { Message } from "@bufbuild/protobuf";
import type { GatewayResponse } from "../../http/response.ts";
import { createBinder } from "./request/bind.ts";
import { createVariantSelector, type Route } from "../../routing/route.ts";
import { createInvoke } from "../../call/invoke.ts";
import type { OpenStreamsOf } from "../../call/shutdown.ts";
import type { Invocation } from "../../call/runner.ts";
import { createNegotiation } from "./negotiate.ts";
import { createCallPipeline, type CallPipelineOptions } from "./pipeline.ts";
import type { Implementation } from "../../call/implementations.ts";
import type { CompleteGatewayOptions } from "../../options/options.ts";
import type { GatewayRequest } from "../../http/request.ts";
import type { Responder } from "./response/respond.ts";

export type ServedOperation = {
  /**
   * Responds to a request that matches the route. Never throws or rejects; returns a promise only if something has to be
   * awaited.
   */
  run(request: GatewayRequest, pathVariables: readonly string[]): GatewayResponse | Promise<GatewayResponse>;
};

export type OperationOptions = CompleteGatewayOptions & CallPipelineOptions & { readonly openStreamsOf: OpenStreamsOf };

/** Compiles a unary RPC. It responds synchronously if possible, since each promise costs a turn of the microtask queue. */
export function createOperation(
  implementation: Implementation,
  route: Route,
  options: OperationOptions,
): ServedOperation {
  const { method } = implementation;
  const invoke = createInvoke(method, implementation.call, options.interceptors);
  const select = createVariantSelector(
    route.method,
    route.variants.map((variant) => [
      variant.value,
      { negotiate: createNegotiation(route, variant, options), bind: createBinder(route, variant, options) },
    ]),
  );
  const pipeline = createCallPipeline(method, route, options);

  const finish = ({ request, context }: Invocation, respond: Responder, message: Message): GatewayResponse => {
    const response = respond(request, message, context);
    context.finish();
    return response;
  };

  const callAsync = async (
    invocation: Invocation,
    respond: Responder,
    requestMessage: Promise<Message>,
  ): Promise<GatewayResponse> => {
    invocation.context.observeClient();
    const result = invoke(await requestMessage, invocation.context);
    return finish(invocation, respond, result instanceof Promise ? await result : result);
  };

  const call = (invocation: Invocation): GatewayResponse | Promise<GatewayResponse> => {
    const { request, pathVariables, context } = invocation;
    const { negotiate, bind } = select(request.headers);
    const respond = negotiate(request);
    const requestMessage = bind(request, pathVariables);
    if (requestMessage instanceof Promise) {
      return callAsync(invocation, respond, requestMessage);
    }
    const result = invoke(requestMessage, context);
    return result instanceof Promise
      ? result.then((message) => finish(invocation, respond, message))
      : finish(invocation, respond, result);
  };

  return { run: (request, pathVariables) => pipeline.run(call, request, pathVariables) };
}
