import { create, isMessage, type DescMethodUnary, type DescService, type Message } from "@bufbuild/protobuf";
import { createContextValues, type ContextValues, type HandlerContext, type Interceptor } from "@connectrpc/connect";
import type { IncomingHttpHeaders } from "node:http";

/** A unary implementation as Connect's router takes it, types erased. */
export type UnaryImplementation = (message: Message, context: HandlerContext) => unknown;

/** What a call needs to know of the request that it came with. Nothing is computed until it is asked for. */
export type CallOrigin = {
  readonly httpMethod: string;
  readonly headers: IncomingHttpHeaders;
  url(): string;
  contextValues(): ContextValues | undefined;
  /** Calls back when the client has gone before the answer. */
  onAbort(callback: () => void): void;
};

/**
 * The context of one call. What is costly (headers, the signal, context values) is made when it is
 * first asked for: a call that asks for nothing pays for nothing.
 */
export class CallContext implements HandlerContext {
  readonly method: DescMethodUnary;
  readonly service: DescService;
  readonly requestMethod: string;
  readonly protocolName = "http";
  readonly #origin: CallOrigin;
  #requestHeader: Headers | undefined;
  #responseHeader: Headers | undefined;
  #responseTrailer: Headers | undefined;
  #values: ContextValues | undefined;
  #controller: AbortController | undefined;

  constructor(method: DescMethodUnary, origin: CallOrigin) {
    this.method = method;
    this.service = method.parent;
    this.requestMethod = origin.httpMethod;
    this.#origin = origin;
  }

  timeoutMs(): undefined {
    return undefined;
  }

  get url(): string {
    return this.#origin.url();
  }

  get signal(): AbortSignal {
    if (this.#controller === undefined) {
      const controller = new AbortController();
      this.#origin.onAbort(() => controller.abort());
      this.#controller = controller;
    }
    return this.#controller.signal;
  }

  get requestHeader(): Headers {
    return (this.#requestHeader ??= headersOf(this.#origin.headers));
  }

  get responseHeader(): Headers {
    return (this.#responseHeader ??= new Headers());
  }

  get responseTrailer(): Headers {
    return (this.#responseTrailer ??= new Headers());
  }

  get values(): ContextValues {
    return (this.#values ??= this.#origin.contextValues() ?? createContextValues());
  }

  /** The headers that were set for the answer; undefined where nobody asked for them. */
  setHeaders(): Headers | undefined {
    return this.#responseHeader;
  }

  /** The call is over: aborts the signal, if someone holds it. */
  finish(): void {
    this.#controller?.abort();
  }
}

function headersOf(incoming: IncomingHttpHeaders): Headers {
  const headers = new Headers();
  for (const [name, value] of Object.entries(incoming)) {
    // HTTP/2 pseudo-headers are no headers.
    if (value !== undefined && !name.startsWith(":")) {
      for (const each of Array.isArray(value) ? value : [value]) {
        headers.append(name, each);
      }
    }
  }
  return headers;
}

/** Runs an implementation behind its interceptors. */
export type Invoke = (message: Message, context: CallContext) => Promise<Message>;

/** Own, and so survives a spread: the innermost function finds the context of a copied request too. */
const contextOf = Symbol("context");

/** What interceptors see of the request; it shows the context's lazy parts under their other names. */
class CallRequest {
  readonly stream = false;
  readonly service: DescService;
  readonly method: DescMethodUnary;
  readonly message: Message;
  readonly requestMethod: string;
  readonly [contextOf]: CallContext;

  constructor(message: Message, context: CallContext) {
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

class CallResponse {
  readonly stream = false;
  readonly service: DescService;
  readonly method: DescMethodUnary;
  readonly message: Message;
  readonly [contextOf]: CallContext;

  constructor(message: Message, context: CallContext) {
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

/**
 * Builds the chain once. As in Connect, the last interceptor of the array is applied first, and one
 * that hands on a copy of the request (`next({ ...request, header })`) is obeyed: those behind it, and
 * the implementation, see the copy. Spread takes the lazy parts of a request or a response only when
 * they were named; what a copy lacks is filled in from the original as it is handed on.
 */
export function createInvoke(
  method: DescMethodUnary,
  implementation: UnaryImplementation,
  interceptors: readonly Interceptor[],
): Invoke {
  const output = (result: unknown): Message =>
    isMessage(result, method.output) ? result : create(method.output, result as Record<string, unknown>);
  if (interceptors.length === 0) {
    return async (message, context) => output(await implementation(message, context));
  }
  const innermost = async (request: CallRequest): Promise<CallResponse> => {
    const original = request[contextOf];
    const context = request instanceof CallRequest ? original : copyContext(original, request);
    return new CallResponse(output(await implementation(request.message, context)), original);
  };
  const chain = interceptors.reduceRight<(request: CallRequest) => Promise<CallResponse>>((next, interceptor) => {
    const intercepted = interceptor((async (request: CallRequest) =>
      completeResponse(await next(completeRequest(request)))) as unknown as Next) as unknown as typeof next;
    return intercepted;
  }, innermost);
  return async (message, context) => {
    const response = await chain(new CallRequest(message, context));
    if (!(response instanceof CallResponse)) {
      const { header } = completeResponse(response);
      if (header !== context.responseHeader) {
        replaceHeaders(context.responseHeader, header);
      }
    }
    return response.message;
  };
}

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
    timeoutMs: () => context.timeoutMs(),
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
