import type { DescMessage, DescMethod } from "@bufbuild/protobuf";
import { MethodOptions_IdempotencyLevel } from "@bufbuild/protobuf/wkt";
import type { Answer } from "./answer.ts";
import { createBinder } from "./bind.ts";
import { createSelector, type Binding } from "./binding.ts";
import { createInvoke } from "./call.ts";
import { CallContext } from "./context.ts";
import type { Compressor } from "./compression.ts";
import { createDeadline, readTimeout } from "./deadline.ts";
import { createFaultAnswer, type ErrorAnswers } from "./error.ts";
import { Fault } from "./fault.ts";
import { findRawBody } from "./http-body.ts";
import type { Implementation } from "./implementations.ts";
import { accepts } from "./media.ts";
import type { CompleteOptions } from "./options.ts";
import type { TranscodingRequest } from "./request.ts";
import { createResponder } from "./respond.ts";
import { methodRule } from "./rules.ts";
import { addVary } from "./vary.ts";

/** A binding with its implementation, compiled: everything that can be known at start-up is. */
export type Operation = {
  readonly method: DescMethod;
  /** Answers a request whose path and method lead here; never rejects. */
  run(request: TranscodingRequest, captures: readonly string[]): Promise<Answer>;
};

export type OperationOptions = CompleteOptions & {
  readonly errorAnswers: ErrorAnswers;
  /** undefined: off. */
  readonly compressor: Compressor | undefined;
  /** Finds a message by its full name, for the options that name one. */
  readonly findMessage: (typeName: string) => DescMessage | undefined;
};

export function createOperation(
  { method, call }: Implementation,
  binding: Binding,
  options: OperationOptions,
): Operation {
  const rule = methodRule(binding.method);
  const invoke = createInvoke(method, call, options.interceptors);
  const select = createSelector(
    binding.method,
    binding.variants.map((variant) => [
      variant.value,
      {
        hasBody: variant.hasBody,
        // What a raw body is, nobody knows before it is there.
        isJson: findRawBody(method.output, variant.responseBody) === undefined,
        bind: createBinder(binding, variant, options),
        respond: createResponder(binding.method, variant, options),
      },
    ]),
  );
  const faultAnswer = createFaultAnswer(
    {
      invalid: rule.invalid === "" ? "invalid_argument" : rule.invalid,
      message: rule.fault === "" ? undefined : requireMessage(rule.fault, options.findMessage),
    },
    options.errorAnswers,
  );
  const { compressor } = options;
  const fixedHeaders = rule.headers.map(({ name, value }) => [name.toLowerCase(), value] as const);
  const variantHeader =
    method.idempotency === MethodOptions_IdempotencyLevel.NO_SIDE_EFFECTS ? rule.variants?.header : undefined;

  const finish = (request: TranscodingRequest, context: CallContext, answer: Answer): Answer | Promise<Answer> => {
    context.finish();
    for (const [name, value] of fixedHeaders) {
      answer.headers[name] = value;
    }
    if (variantHeader !== undefined) {
      addVary(answer.headers, variantHeader);
    }
    return compressor === undefined ? answer : compressor.compress(answer, request.headers["accept-encoding"]);
  };

  const answer = async (
    request: TranscodingRequest,
    captures: readonly string[],
    context: CallContext,
    /** Of its deadline: the gate comes before it. */
    fault: Fault | undefined,
  ): Promise<Answer> => {
    let answered: Answer;
    try {
      // Not awaited where it decides at once: an await costs a turn of the microtask queue.
      const gated = options.requestGate?.(context);
      if (gated !== undefined) {
        await gated;
      }
      if (fault !== undefined) {
        throw fault;
      }
      const shape = select(request.headers);
      if (shape.hasBody) {
        if (shape.isJson && !accepts(request.headers.accept, "application/json")) {
          throw new Fault(406, "not_acceptable", "this operation answers application/json");
        }
        if (compressor?.refuses(request.headers["accept-encoding"]) === true) {
          throw new Fault(406, "not_acceptable", "the Accept-Encoding leaves no form of the answer");
        }
      }
      // Nor are these where they have no reason to wait.
      const bound = shape.bind(request, captures);
      const invoked = invoke(bound instanceof Promise ? await bound : bound, context);
      const response = invoked instanceof Promise ? await invoked : invoked;
      answered = shape.respond(request, response, context.setHeaders());
    } catch (error) {
      answered = error instanceof Fault ? faultAnswer(error) : options.errorAnswers.ofError(error);
    }
    return finish(request, context, answered);
  };

  return {
    method,
    run(request, captures) {
      const timeout = readTimeout(request.headers, options.maxTimeoutMs);
      if (typeof timeout !== "number") {
        return answer(request, captures, new CallContext(method, request), timeout);
      }
      const deadline = createDeadline(timeout);
      const context = new CallContext(method, request, deadline);
      // Before the call, for what the signal makes of the call comes later then.
      const late = deadline.expired.catch((error: unknown) => {
        context.finish(error);
        return finish(request, context, options.errorAnswers.ofError(error));
      });
      // An implementation that does not look at its signal is not waited for.
      return Promise.race([answer(request, captures, context, undefined), late]);
    },
  };
}

export function requireMessage(name: string, find: (typeName: string) => DescMessage | undefined): DescMessage {
  const message = find(name);
  if (message === undefined) {
    throw new Error(`no message ${name} in the files of the registered services`);
  }
  return message;
}
