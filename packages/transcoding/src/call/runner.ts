import type { DescMethod } from "@bufbuild/protobuf";
import type { HandlerContext } from "@connectrpc/connect";
import type { IncomingHttpHeaders } from "node:http";
import type { Answer } from "../http/answer.ts";
import { CallContext } from "./context.ts";
import { createDeadline, type Deadline } from "./deadline.ts";
import type { TranscodingRequest } from "../http/request.ts";

/** A request that was routed to a method. */
export type Arrival<Request extends TranscodingRequest = TranscodingRequest> = {
  readonly request: Request;
  /** The raw values of the path's variables, in order. */
  readonly captures: readonly string[];
  /** The call finishes it on success, the runner on failure. */
  readonly context: CallContext;
  readonly deadline: Deadline | undefined;
};

/** Decodes the request, invokes the implementation and encodes the response; what it throws becomes the failure answer. */
export type Call<Request extends TranscodingRequest = TranscodingRequest> = (
  arrival: Arrival<Request>,
) => Answer | Promise<Answer>;

/** What differs between the protocols that share one way through gate, deadline and call. */
export type CallProtocol<Request extends TranscodingRequest> = {
  /** HandlerContext.protocolName. */
  readonly name: string;
  /** Throws or rejects to refuse a call before its body is read. */
  readonly requestGate: ((context: HandlerContext) => void | Promise<void>) | undefined;
  /** The client's deadline in ms; an error where it is malformed, which is thrown behind the gate. */
  readonly readTimeout: (headers: IncomingHttpHeaders) => number | Error | undefined;
  /** Completes every answer, also that of a failure. Must not throw or reject. */
  readonly complete: (request: Request, answer: Answer) => Answer | Promise<Answer>;
  /** Must not throw. */
  readonly failureAnswer: (error: unknown, arrival: Arrival<Request>) => Answer;
};

/** Never throws, and never rejects. Returns a promise only if something has to be waited for. */
export type RunCall<Request extends TranscodingRequest> = (
  call: Call<Request>,
  request: Request,
  captures: readonly string[],
) => Answer | Promise<Answer>;

/**
 * Runs the calls of one method over one protocol: gate, then deadline, then the call itself. It returns synchronously
 * wherever it can, since every promise costs a turn of the microtask queue.
 */
export function createCallRunner<Request extends TranscodingRequest>(
  method: DescMethod,
  { name, requestGate, readTimeout, complete, failureAnswer }: CallProtocol<Request>,
): RunCall<Request> {
  const fail = (arrival: Arrival<Request>, error: unknown): Answer | Promise<Answer> => {
    const answer = failureAnswer(error, arrival);
    arrival.context.finish(error);
    return complete(arrival.request, answer);
  };

  const callBehind = async (gated: Promise<void>, call: Call<Request>, arrival: Arrival<Request>): Promise<Answer> => {
    arrival.context.listen();
    await gated;
    arrival.context.assertAwaited();
    return call(arrival);
  };

  const attempt = (call: Call<Request>, arrival: Arrival<Request>): Answer | Promise<Answer> => {
    let called: Answer | Promise<Answer>;
    try {
      const gated = requestGate?.(arrival.context);
      called = gated === undefined ? call(arrival) : callBehind(gated, call, arrival);
    } catch (error) {
      return fail(arrival, error);
    }
    if (!(called instanceof Promise)) {
      return complete(arrival.request, called);
    }
    const { deadline } = arrival;
    // The answer does not wait for an implementation that ignores its signal.
    const settled = deadline === undefined ? called : Promise.race([called, deadline.expired]);
    return settled.then(
      (answer) => complete(arrival.request, answer),
      (error: unknown) => fail(arrival, error),
    );
  };

  return (call, request, captures) => {
    const timeout = readTimeout(request.headers);
    if (typeof timeout === "number") {
      const deadline = createDeadline(timeout);
      return attempt(call, { request, captures, context: new CallContext(method, name, request, deadline), deadline });
    }
    const context = new CallContext(method, name, request);
    return attempt(timeout === undefined ? call : throwing(timeout), {
      request,
      captures,
      context,
      deadline: undefined,
    });
  };
}

function throwing(error: Error): () => never {
  return () => {
    throw error;
  };
}
