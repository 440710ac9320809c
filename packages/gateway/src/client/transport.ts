import type { DescMethod } from "@bufbuild/protobuf";
import { createContextValues, type Transport } from "@connectrpc/connect";
import { runStreamingCall, runUnaryCall } from "@connectrpc/connect/protocol";
import { compileOperation, type CalledOperation } from "./operation.ts";
import { completeOptions, type CompleteTransportOptions, type RestTransportOptions } from "./options.ts";
import { sendStreaming, sendUnary } from "./send.ts";

/**
 * Creates a Connect transport that calls an HTTP API by the google.api.http rules of its methods: one that this package,
 * grpc-gateway, vanguard-go or Envoy serves, or one of Google. It uses `fetch`, in Node and in browsers. Throws an Error for an
 * invalid option; a call of a method without a rule fails with UNIMPLEMENTED.
 */
export function createRestTransport(options: RestTransportOptions): Transport {
  const complete = completeOptions(options);
  const { baseUrl, interceptors } = complete;
  const operations = new WeakMap<DescMethod, CalledOperation>();
  const operationOf = (method: DescMethod): CalledOperation => {
    let operation = operations.get(method);
    if (operation === undefined) {
      operation = compileOperation(method, complete);
      operations.set(method, operation);
    }
    return operation;
  };

  /** Returns the request as interceptors see it. The path depends on the message, which they can change. */
  const requestOf = <M extends DescMethod>(
    method: M,
    { httpMethod, template }: CalledOperation,
    timeoutMs: number | undefined,
    init: ConstructorParameters<typeof Headers>[0],
    contextValues = createContextValues(),
  ) => ({
    service: method.parent,
    method,
    requestMethod: httpMethod,
    url: `${baseUrl}${template}`,
    header: headerOf(init, timeoutMs, complete),
    contextValues,
  });

  return {
    async unary(method, signal, timeoutMs, header, message, contextValues) {
      const operation = operationOf(method);
      const timeout = timeoutOf(timeoutMs, complete);
      return runUnaryCall({
        interceptors,
        ...(signal && { signal }),
        ...(timeout !== undefined && { timeoutMs: timeout }),
        req: { ...requestOf(method, operation, timeout, header, contextValues), stream: false, message },
        next: (request) => sendUnary(operation, request, complete),
      });
    },
    async stream(method, signal, timeoutMs, header, input, contextValues) {
      const operation = operationOf(method);
      const timeout = timeoutOf(timeoutMs, complete);
      // Cancels the call when the messages of the response are abandoned: runStreamingCall omits `return`.
      const abandoned = new AbortController();
      const response = await runStreamingCall({
        interceptors,
        signal: signal === undefined ? abandoned.signal : AbortSignal.any([signal, abandoned.signal]),
        ...(timeout !== undefined && { timeoutMs: timeout }),
        req: { ...requestOf(method, operation, timeout, header, contextValues), stream: true, message: input },
        next: (request) => sendStreaming(operation, request, complete),
      });
      return { ...response, message: withReturn(response.message, () => abandoned.abort()) };
    },
  };
}

/** A timeout of 0 or less means none, as in other transports. */
function timeoutOf(timeoutMs: number | undefined, { defaultTimeoutMs }: CompleteTransportOptions): number | undefined {
  const timeout = timeoutMs ?? defaultTimeoutMs;
  return timeout !== undefined && timeout > 0 ? timeout : undefined;
}

function headerOf(
  init: ConstructorParameters<typeof Headers>[0],
  timeoutMs: number | undefined,
  options: CompleteTransportOptions,
): Headers {
  const header = new Headers(init);
  if (timeoutMs !== undefined) {
    setTimeoutHeader(header, timeoutMs, options.timeoutHeader);
  }
  return header;
}

function withReturn<T>(messages: AsyncIterable<T>, abandon: () => void): AsyncIterable<T> {
  return {
    [Symbol.asyncIterator]() {
      const iterator = messages[Symbol.asyncIterator]();
      return {
        next: () => iterator.next(),
        async return() {
          abandon();
          return { done: true, value: undefined };
        },
      };
    },
  };
}

function setTimeoutHeader(header: Headers, timeoutMs: number, name: CompleteTransportOptions["timeoutHeader"]): void {
  const ms = Math.ceil(timeoutMs);
  switch (name) {
    case "X-Server-Timeout":
      header.set(name, String(ms / 1000));
      break;
    case "Grpc-Timeout":
      // At most 8 digits.
      header.set(name, ms < 1e8 ? `${ms}m` : `${Math.ceil(ms / 1000)}S`);
      break;
    case "Connect-Timeout-Ms":
      header.set(name, String(ms));
      break;
    case "none":
  }
}
