import type { DescMessage, DescMethod } from "@bufbuild/protobuf";
import { MethodOptions_IdempotencyLevel } from "@bufbuild/protobuf/wkt";
import type { Answer } from "./answer.ts";
import type { Binding } from "./binding.ts";
import type { Compressor } from "./compression.ts";
import { CallContext } from "./context.ts";
import { createDeadline, readTimeout, type Deadline } from "./deadline.ts";
import { createFaultAnswer, type ErrorAnswers } from "./error.ts";
import { Fault } from "./fault.ts";
import type { CompleteOptions } from "./options.ts";
import type { TranscodingRequest } from "./request.ts";
import { methodRule } from "./rules.ts";
import { addVary } from "./vary.ts";

/** A request that leads to a call. */
export type Arrival = {
  readonly request: TranscodingRequest;
  /** What the path's variables matched, raw, in order. */
  readonly captures: readonly string[];
  /** The call finishes it where it succeeds, the envelope where it fails. */
  readonly context: CallContext;
  readonly deadline: Deadline | undefined;
};

/** Makes a call, behind the gate. What it throws becomes its answer. */
type Call = (arrival: Arrival) => Answer | Promise<Answer>;

/**
 * What is around each call of an operation: before it the gate, beside it the deadline, behind it the
 * answer to a failure, the headers that all answers have, and compression.
 */
export type Envelope = {
  /** Never throws, and never rejects. A promise only where there is something to wait for. */
  run(call: Call, request: TranscodingRequest, captures: readonly string[]): Answer | Promise<Answer>;
  /** The answer to a failure, as `run` gives it, but bare. */
  failureAnswer(error: unknown): Answer;
};

export type EnvelopeOptions = Pick<CompleteOptions, "requestGate" | "maxTimeoutMs"> & {
  readonly errorAnswers: ErrorAnswers;
  /** undefined: off. */
  readonly compressor: Compressor | undefined;
  /** Finds a message by its full name, for the options that name one. */
  readonly findMessage: (typeName: string) => DescMessage | undefined;
};

export function createEnvelope(method: DescMethod, binding: Binding, options: EnvelopeOptions): Envelope {
  const { requestGate, maxTimeoutMs, errorAnswers, compressor, findMessage } = options;
  const rule = methodRule(binding.method);
  const faultAnswer = createFaultAnswer(
    {
      invalid: rule.invalid === "" ? "invalid_argument" : rule.invalid,
      message: rule.fault === "" ? undefined : requireMessage(rule.fault, findMessage),
    },
    errorAnswers,
  );
  const fixedHeaders = rule.headers.map(({ name, value }) => [name.toLowerCase(), value] as const);
  const variantHeader =
    method.idempotency === MethodOptions_IdempotencyLevel.NO_SIDE_EFFECTS ? rule.variants?.header : undefined;

  const failureAnswer = (error: unknown): Answer =>
    error instanceof Fault ? faultAnswer(error) : errorAnswers.ofError(error);

  const close = (request: TranscodingRequest, answer: Answer): Answer | Promise<Answer> => {
    for (const [name, value] of fixedHeaders) {
      answer.headers[name] ??= value;
    }
    if (variantHeader !== undefined) {
      addVary(answer.headers, variantHeader);
    }
    return compressor === undefined ? answer : compressor.compress(answer, request.headers["accept-encoding"]);
  };

  const fail = ({ request, context }: Arrival, error: unknown): Answer | Promise<Answer> => {
    context.finish(error);
    return close(request, failureAnswer(error));
  };

  const callBehind = async (gated: Promise<void>, call: Call, arrival: Arrival): Promise<Answer> => {
    arrival.context.listen();
    await gated;
    arrival.context.assertAwaited();
    return call(arrival);
  };

  /** What is there at once is answered without a promise: each costs a turn of the microtask queue. */
  const attempt = (call: Call, arrival: Arrival): Answer | Promise<Answer> => {
    let called: Answer | Promise<Answer>;
    try {
      const gated = requestGate?.(arrival.context);
      called = gated === undefined ? call(arrival) : callBehind(gated, call, arrival);
    } catch (error) {
      return fail(arrival, error);
    }
    if (!(called instanceof Promise)) {
      return close(arrival.request, called);
    }
    const { deadline } = arrival;
    // An implementation that does not look at its signal is not waited for.
    const settled = deadline === undefined ? called : Promise.race([called, deadline.expired]);
    return settled.then(
      (answer) => close(arrival.request, answer),
      (error: unknown) => fail(arrival, error),
    );
  };

  return {
    failureAnswer,
    run(call, request, captures) {
      const timeout = readTimeout(request.headers, maxTimeoutMs);
      if (typeof timeout !== "number") {
        const context = new CallContext(method, request);
        // The gate comes before a malformed deadline.
        return attempt(timeout === undefined ? call : refuse(timeout), {
          request,
          captures,
          context,
          deadline: undefined,
        });
      }
      const deadline = createDeadline(timeout);
      return attempt(call, { request, captures, context: new CallContext(method, request, deadline), deadline });
    },
  };
}

function refuse(fault: Fault): Call {
  return () => {
    throw fault;
  };
}

function requireMessage(name: string, find: (typeName: string) => DescMessage | undefined): DescMessage {
  const message = find(name);
  if (message === undefined) {
    throw new Error(`no message ${name} in the files of the registered services`);
  }
  return message;
}
