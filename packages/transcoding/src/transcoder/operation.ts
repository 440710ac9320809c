import type { DescMethod, Message } from "@bufbuild/protobuf";
import { createAcceptCheck } from "../response/accept.ts";
import type { TranscodingResponse } from "../http/response.ts";
import { createBinder } from "../request/bind.ts";
import { createSelector, type Route } from "../routing/route.ts";
import { createInvoke } from "../call/invoke.ts";
import type { Invocation } from "../call/runner.ts";
import { createCallPipeline, type CallPipelineOptions } from "./pipeline.ts";
import type { Implementation } from "../call/implementations.ts";
import type { CompleteOptions } from "./options.ts";
import type { TranscodingRequest } from "../http/request.ts";
import { createResponder, type Responder } from "../response/respond.ts";

/** A binding with its implementation, compiled: everything that can be known at start-up is. */
export type Operation = {
  readonly method: DescMethod;
  /**
   * Answers a request whose path and method lead here. Never throws, and never rejects. A promise only where there is
   * something to wait for.
   */
  run(
    request: TranscodingRequest,
    pathVariables: readonly string[],
  ): TranscodingResponse | Promise<TranscodingResponse>;
};

export type OperationOptions = CompleteOptions & CallPipelineOptions;

/** Compiles a unary RPC. Nothing is awaited that has no reason to wait: it would cost turns of the microtask queue. */
export function createOperation({ method, call }: Implementation, route: Route, options: OperationOptions): Operation {
  const invoke = createInvoke(method, call, options.interceptors);
  const select = createSelector(
    route.method,
    route.variants.map((variant) => [
      variant.value,
      {
        assertAccepted: createAcceptCheck(method, variant, options.compressor),
        bind: createBinder(route, variant, options),
        respond: createResponder(route.method, variant, options),
      },
    ]),
  );
  const pipeline = createCallPipeline(method, route, options);

  const finish = ({ request, context }: Invocation, respond: Responder, response: Message): TranscodingResponse => {
    const answer = respond(request, response, context.setHeaders());
    context.finish();
    return answer;
  };

  const answerLater = async (
    invocation: Invocation,
    respond: Responder,
    bound: Promise<Message>,
  ): Promise<TranscodingResponse> => {
    invocation.context.listen();
    const invoked = invoke(await bound, invocation.context);
    return finish(invocation, respond, invoked instanceof Promise ? await invoked : invoked);
  };

  const answer = (invocation: Invocation): TranscodingResponse | Promise<TranscodingResponse> => {
    const { request, pathVariables, context } = invocation;
    const { assertAccepted, bind, respond } = select(request.headers);
    assertAccepted(request.headers);
    const bound = bind(request, pathVariables);
    if (bound instanceof Promise) {
      return answerLater(invocation, respond, bound);
    }
    const invoked = invoke(bound, context);
    return invoked instanceof Promise
      ? invoked.then((response) => finish(invocation, respond, response))
      : finish(invocation, respond, invoked);
  };

  return { method, run: (request, pathVariables) => pipeline.run(answer, request, pathVariables) };
}
