import type { DescMethod, DescService, Message } from "@bufbuild/protobuf";
import type { ContextValues, HandlerContext, Interceptor } from "@connectrpc/connect";
import type { CallContext } from "./context.ts";

/** Own, and so survives a spread: the innermost function finds the context of a copied request too. */
const contextOf = Symbol("context");

/** What interceptors see of the request; it shows the context's lazy parts under their other names. */
export class CallRequest {
  readonly stream: boolean;
  readonly service: DescService;
  readonly method: DescMethod;
  readonly message: Message | AsyncIterable<Message>;
  readonly requestMethod: string;
  readonly [contextOf]: CallContext;

  constructor(stream: boolean, message: Message | AsyncIterable<Message>, context: CallContext) {
    this.stream = stream;
    this.service = context.service;
    this.method = context.method;
    this.message = message;
    this.requestMethod = context.requestMethod;
    this[contextOf] = context;
  }

  get url(): string {
    return this[contextOf].url;
  }

  get signal(): AbortSignal {
    return this[contextOf].signal;
  }

  get header(): Headers {
    return this[contextOf].requestHeader;
  }

  get contextValues(): ContextValues {
    return this[contextOf].values;
  }
}

export class CallResponse {
  readonly stream: boolean;
  readonly service: DescService;
  readonly method: DescMethod;
  readonly message: Message | AsyncIterable<Message>;
  readonly [contextOf]: CallContext;

  constructor(stream: boolean, message: Message | AsyncIterable<Message>, context: CallContext) {
    this.stream = stream;
    this.service = context.service;
    this.method = context.method;
    this.message = message;
    this[contextOf] = context;
  }

  get header(): Headers {
    return this[contextOf].responseHeader;
  }

  get trailer(): Headers {
    return this[contextOf].responseTrailer;
  }
}

/** Calls the implementation; `original` is the context that `context` is, or is a copy of. May throw instead of rejecting. */
type Innermost = (
  input: Message | AsyncIterable<Message>,
  context: HandlerContext,
  original: CallContext,
) => Promise<CallResponse>;

/**
 * As in Connect, the last interceptor of the array is applied first, and one that hands on a copy of the
 * request (`next({ ...request, header })`) is obeyed: those behind it, and the implementation, see the
 * copy. Spread takes the lazy parts of a request or a response only when they were named; what a copy
 * lacks is filled in from the original as it is handed on.
 */
export function createChain(
  interceptors: readonly Interceptor[],
  call: Innermost,
): (request: CallRequest) => Promise<CallResponse["message"]> {
  const innermost = (request: CallRequest): Promise<CallResponse> => {
    const original = request[contextOf];
    // An interceptor may have waited.
    original.assertAwaited();
    const context = request instanceof CallRequest ? original : copyContext(original, request);
    return call(request.message, context, original);
  };
  const chain = interceptors.reduceRight<Step>((next, interceptor) => {
    const isLast = next === innermost;
    // Not an async function, which would cost a promise more.
    const step: Step = (request) => {
      try {
        const responded = next(completeRequest(request));
        return isLast ? responded : Promise.resolve(responded).then(completeResponse);
      } catch (error) {
        return Promise.reject(error);
      }
    };
    return interceptor(step as unknown as Next) as unknown as Step;
  }, innermost);
  return (request) => {
    const context = request[contextOf];
    context.assertAwaited();
    // An interceptor that is not an async function may give what is no promise.
    return Promise.resolve(chain(request)).then((response) => {
      if (!(response instanceof CallResponse)) {
        const { header, trailer } = completeResponse(response);
        if (header !== context.responseHeader) {
          replaceHeaders(context.responseHeader, header);
        }
        if (trailer !== context.responseTrailer) {
          replaceHeaders(context.responseTrailer, trailer);
        }
      }
      return response.message;
    });
  };
}

/** May throw instead of rejecting. */
type Step = (request: CallRequest) => Promise<CallResponse>;

type Next = Parameters<Interceptor>[0];

function completeRequest(request: CallRequest): CallRequest {
  if (request instanceof CallRequest) {
    return request;
  }
  const original = (request as CallRequest)[contextOf] as CallContext | undefined;
  if (original === undefined) {
    throw new TypeError("an interceptor made a request of its own; it must hand on the one that it got, or a copy");
  }
  const { url, requestHeader: header, signal, values: contextValues } = original;
  return Object.assign({ url, header, signal, contextValues }, request);
}

/** An interceptor may answer by itself; what it gives is complete then. */
function completeResponse(response: CallResponse): CallResponse {
  const original = response[contextOf] as CallContext | undefined;
  if (response instanceof CallResponse || original === undefined) {
    return response;
  }
  return Object.assign({ header: original.responseHeader, trailer: original.responseTrailer }, response);
}

function copyContext(context: CallContext, request: CallRequest): HandlerContext {
  return {
    method: context.method,
    service: context.service,
    requestMethod: context.requestMethod,
    protocolName: context.protocolName,
    timeoutMs: context.timeoutMs,
    responseHeader: context.responseHeader,
    responseTrailer: context.responseTrailer,
    url: request.url,
    requestHeader: request.header,
    signal: request.signal,
    values: request.contextValues,
  };
}

function replaceHeaders(target: Headers, source: Headers): void {
  for (const name of Array.from(target.keys())) {
    target.delete(name);
  }
  for (const [name, value] of source) {
    target.append(name, value);
  }
}
