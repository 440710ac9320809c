import type { DescMethod } from "@bufbuild/protobuf";
import type { HandlerContext } from "@connectrpc/connect";
import type { GatewayResponse } from "../http/response.ts";
import { CallContext } from "./context.ts";
import { createDeadline, type Deadline } from "./deadline.ts";
import type { GatewayRequest, RequestHeaders } from "../http/request.ts";

export type Invocation = {
  readonly request: GatewayRequest;
  /** The values of the path variables, in order, still percent-encoded. */
  readonly pathVariables: readonly string[];
  /** `PerformCall` must finish it on success; the runner does on failure. */
  readonly context: CallContext;
  readonly deadline: Deadline | undefined;
};

/** Decodes the request, invokes the implementation and encodes the response. An error it throws becomes an error response. */
export type PerformCall = (invocation: Invocation) => GatewayResponse | Promise<GatewayResponse>;

export type CallProtocol = {
  readonly name: string;
  readonly httpRoute?: string;
  /** The format of the messages; for REST the most common one. */
  readonly format: "json" | "proto";
  /** Called before the body is read; throws or rejects to reject the call. */
  readonly requestGate: ((context: HandlerContext) => void | Promise<void>) | undefined;
  /** Returns the request's timeout in ms. If it is malformed, returns an error, which is thrown after the gate. */
  readonly readTimeout: (headers: RequestHeaders) => number | Error | undefined;
  /** Completes every response, including error responses. Must not throw or reject. */
  readonly complete: (request: GatewayRequest, response: GatewayResponse) => GatewayResponse | Promise<GatewayResponse>;
  /** Creates the response to an error. Must not throw. */
  readonly errorResponse: (error: unknown, invocation: Invocation) => GatewayResponse;
};

/** Runs a call. Never throws or rejects; returns a promise only if something has to be awaited. */
export type RunCall = (
  call: PerformCall,
  request: GatewayRequest,
  pathVariables: readonly string[],
) => GatewayResponse | Promise<GatewayResponse>;

/**
 * Creates the runner for the calls of a method over one protocol: gate, deadline, call. It returns synchronously if
 * possible, since each promise costs a turn of the microtask queue.
 */
export function createCallRunner(
  method: DescMethod,
  { name, httpRoute, format, requestGate, readTimeout, complete, errorResponse }: CallProtocol,
): RunCall {
  const fail = (invocation: Invocation, error: unknown): GatewayResponse | Promise<GatewayResponse> => {
    const response = errorResponse(error, invocation);
    invocation.context.finish(error);
    return complete(invocation.request, response);
  };

  const callAfterGate = async (
    gate: Promise<void>,
    call: PerformCall,
    invocation: Invocation,
  ): Promise<GatewayResponse> => {
    invocation.context.observeClient();
    await gate;
    invocation.context.throwIfAborted();
    return call(invocation);
  };

  const attempt = (call: PerformCall, invocation: Invocation): GatewayResponse | Promise<GatewayResponse> => {
    let response: GatewayResponse | Promise<GatewayResponse>;
    try {
      const gate = requestGate?.(invocation.context);
      response = gate === undefined ? call(invocation) : callAfterGate(gate, call, invocation);
    } catch (error) {
      return fail(invocation, error);
    }
    if (!(response instanceof Promise)) {
      return complete(invocation.request, response);
    }
    const { deadline } = invocation;
    // Responds at the deadline even if the implementation ignores its signal.
    const settled = deadline === undefined ? response : Promise.race([response, deadline.expired]);
    return settled.then(
      (value) => complete(invocation.request, value),
      (error: unknown) => fail(invocation, error),
    );
  };

  return (call, request, pathVariables) => {
    request.begin?.(method, format);
    const timeout = readTimeout(request.headers);
    if (typeof timeout === "number") {
      const deadline = createDeadline(timeout);
      return attempt(call, {
        request,
        pathVariables,
        context: new CallContext(method, name, request, deadline, httpRoute),
        deadline,
      });
    }
    const context = new CallContext(method, name, request, undefined, httpRoute);
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
