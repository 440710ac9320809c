import type { DescMethod, DescService, Message } from "@bufbuild/protobuf";
import type { ContextValues, HandlerContext, Interceptor } from "@connectrpc/connect";
import type { CallContext } from "./context.ts";

/** An own property, which a spread copies, so that the context of a copied request can be found. */
const contextOf = Symbol("context");

/** The request that interceptors receive. Its getters are the lazy properties of the context. */
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

/** The response that interceptors receive. Its getters are the lazy properties of the context. */
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

/** Calls the implementation. `context` is `original`, or a copy of it. May throw instead of rejecting. */
type Innermost = (
  input: Message | AsyncIterable<Message>,
  context: HandlerContext,
  original: CallContext,
) => Promise<CallResponse>;

/**
 * Compiles the interceptor chain of a method. As in Connect, the last interceptor of the array is applied first, and an
 * interceptor can pass on a copy of the request (`next({ ...request, header })`), which the following interceptors and
 * the implementation receive. A spread does not copy the getters of a request or response, so the missing properties of
 * a copy are added from the original when it is passed on.
 */
export function createChain(
  interceptors: readonly Interceptor[],
  call: Innermost,
): (request: CallRequest) => Promise<CallResponse["message"]> {
  const innermost = (request: CallRequest): Promise<CallResponse> => {
    const original = request[contextOf];
    // An interceptor may have awaited something in the meantime.
    original.throwIfAborted();
    const context = request instanceof CallRequest ? original : copyContext(original, request);
    return call(request.message, context, original);
  };
  const chain = interceptors.reduceRight<Step>((next, interceptor) => {
    const isLast = next === innermost;
    // Not an async function, which would create another promise.
    const step: Step = (request) => {
      try {
        const response = next(completeRequest(request));
        return isLast ? response : Promise.resolve(response).then(completeResponse);
      } catch (error) {
        return Promise.reject(error);
      }
    };
    return interceptor(step as unknown as Next) as unknown as Step;
  }, innermost);
  return (request) => {
    const context = request[contextOf];
    context.throwIfAborted();
    // An interceptor that is not an async function may return a plain value.
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
    throw new TypeError("an interceptor must pass on the request that it received, or a copy of it");
  }
  const { url, requestHeader: header, signal, values: contextValues } = original;
  return Object.assign({ url, header, signal, contextValues }, request);
}

/** Adds the missing properties of a copied response. A response that an interceptor created itself is complete. */
function completeResponse(response: CallResponse): CallResponse {
  const original = response[contextOf] as CallContext | undefined;
  if (response instanceof CallResponse || original === undefined) {
    return response;
  }
  return Object.assign({ header: original.responseHeader, trailer: original.responseTrailer }, response);
}

function copyContext(context: CallContext, request: CallRequest): HandlerContext {
  context.passOnValues(request.contextValues);
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
