import type { DescMethod } from "@bufbuild/protobuf";
import type { HandlerContext } from "@connectrpc/connect";
import type { IncomingHttpHeaders } from "node:http";
import type { TranscodingResponse } from "../http/response.ts";
import { CallContext } from "./context.ts";
import { createDeadline, type Deadline } from "./deadline.ts";
import type { TranscodingRequest } from "../http/request.ts";

/** A request that was routed to a method. */
export type Invocation<Request extends TranscodingRequest = TranscodingRequest> = {
  readonly request: Request;
  /** The raw values of the path's variables, in order. */
  readonly pathVariables: readonly string[];
  /** The call finishes it on success, the runner on failure. */
  readonly context: CallContext;
  readonly deadline: Deadline | undefined;
};

/** Decodes the request, invokes the implementation and encodes the response; what it throws becomes the failure answer. */
export type Call<Request extends TranscodingRequest = TranscodingRequest> = (
  invocation: Invocation<Request>,
) => TranscodingResponse | Promise<TranscodingResponse>;

/** What differs between the protocols that share one way through gate, deadline and call. */
export type CallProtocol<Request extends TranscodingRequest> = {
  /** HandlerContext.protocolName. */
  readonly name: string;
  /** Throws or rejects to refuse a call before its body is read. */
  readonly requestGate: ((context: HandlerContext) => void | Promise<void>) | undefined;
  /** The client's deadline in ms; an error where it is malformed, which is thrown behind the gate. */
  readonly readTimeout: (headers: IncomingHttpHeaders) => number | Error | undefined;
  /** Completes every answer, also that of a failure. Must not throw or reject. */
  readonly complete: (
    request: Request,
    answer: TranscodingResponse,
  ) => TranscodingResponse | Promise<TranscodingResponse>;
  /** Must not throw. */
  readonly failureAnswer: (error: unknown, invocation: Invocation<Request>) => TranscodingResponse;
};

/** Never throws, and never rejects. Returns a promise only if something has to be waited for. */
export type RunCall<Request extends TranscodingRequest> = (
  call: Call<Request>,
  request: Request,
  pathVariables: readonly string[],
) => TranscodingResponse | Promise<TranscodingResponse>;

/**
 * Runs the calls of one method over one protocol: gate, then deadline, then the call itself. It returns synchronously
 * wherever it can, since every promise costs a turn of the microtask queue.
 */
export function createCallRunner<Request extends TranscodingRequest>(
  method: DescMethod,
  { name, requestGate, readTimeout, complete, failureAnswer }: CallProtocol<Request>,
): RunCall<Request> {
  const fail = (
    invocation: Invocation<Request>,
    error: unknown,
  ): TranscodingResponse | Promise<TranscodingResponse> => {
    const answer = failureAnswer(error, invocation);
    invocation.context.finish(error);
    return complete(invocation.request, answer);
  };

  const callBehind = async (
    gated: Promise<void>,
    call: Call<Request>,
    invocation: Invocation<Request>,
  ): Promise<TranscodingResponse> => {
    invocation.context.listen();
    await gated;
    invocation.context.assertAwaited();
    return call(invocation);
  };

  const attempt = (
    call: Call<Request>,
    invocation: Invocation<Request>,
  ): TranscodingResponse | Promise<TranscodingResponse> => {
    let called: TranscodingResponse | Promise<TranscodingResponse>;
    try {
      const gated = requestGate?.(invocation.context);
      called = gated === undefined ? call(invocation) : callBehind(gated, call, invocation);
    } catch (error) {
      return fail(invocation, error);
    }
    if (!(called instanceof Promise)) {
      return complete(invocation.request, called);
    }
    const { deadline } = invocation;
    // The answer does not wait for an implementation that ignores its signal.
    const settled = deadline === undefined ? called : Promise.race([called, deadline.expired]);
    return settled.then(
      (answer) => complete(invocation.request, answer),
      (error: unknown) => fail(invocation, error),
    );
  };

  return (call, request, pathVariables) => {
    const timeout = readTimeout(request.headers);
    if (typeof timeout === "number") {
      const deadline = createDeadline(timeout);
      return attempt(call, {
        request,
        pathVariables,
        context: new CallContext(method, name, request, deadline),
        deadline,
      });
    }
    const context = new CallContext(method, name, request);
    return attempt(timeout === undefined ? call : throwing(timeout), {
      request,
      pathVariables,
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
