import type { DescMethod, Message } from "@bufbuild/protobuf";
import { createAcceptCheck } from "../response/accept.ts";
import type { Answer } from "../http/answer.ts";
import { createBinder } from "../request/bind.ts";
import { createSelector, type Binding } from "../routing/binding.ts";
import { createInvoke } from "../call/invoke.ts";
import type { Arrival } from "../call/runner.ts";
import { createEnvelope, type EnvelopeOptions } from "./envelope.ts";
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
  run(request: TranscodingRequest, captures: readonly string[]): Answer | Promise<Answer>;
};

export type OperationOptions = CompleteOptions & EnvelopeOptions;

/** Compiles a unary RPC. Nothing is awaited that has no reason to wait: it would cost turns of the microtask queue. */
export function createOperation(
  { method, call }: Implementation,
  binding: Binding,
  options: OperationOptions,
): Operation {
  const invoke = createInvoke(method, call, options.interceptors);
  const select = createSelector(
    binding.method,
    binding.variants.map((variant) => [
      variant.value,
      {
        assertAccepted: createAcceptCheck(method, variant, options.compressor),
        bind: createBinder(binding, variant, options),
        respond: createResponder(binding.method, variant, options),
      },
    ]),
  );
  const envelope = createEnvelope(method, binding, options);

  const finish = ({ request, context }: Arrival, respond: Responder, response: Message): Answer => {
    const answer = respond(request, response, context.setHeaders());
    context.finish();
    return answer;
  };

  const answerLater = async (arrival: Arrival, respond: Responder, bound: Promise<Message>): Promise<Answer> => {
    arrival.context.listen();
    const invoked = invoke(await bound, arrival.context);
    return finish(arrival, respond, invoked instanceof Promise ? await invoked : invoked);
  };

  const answer = (arrival: Arrival): Answer | Promise<Answer> => {
    const { request, captures, context } = arrival;
    const { assertAccepted, bind, respond } = select(request.headers);
    assertAccepted(request.headers);
    const bound = bind(request, captures);
    if (bound instanceof Promise) {
      return answerLater(arrival, respond, bound);
    }
    const invoked = invoke(bound, context);
    return invoked instanceof Promise
      ? invoked.then((response) => finish(arrival, respond, response))
      : finish(arrival, respond, invoked);
  };

  return { method, run: (request, captures) => envelope.run(answer, request, captures) };
}
