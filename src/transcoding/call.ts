import {
  create,
  isMessage,
  type DescMessage,
  type DescMethod,
  type DescMethodStreaming,
  type DescMethodUnary,
  type DescService,
  type Message,
} from "@bufbuild/protobuf";
import {
  Code,
  ConnectError,
  createContextValues,
  type ContextValues,
  type HandlerContext,
  type Interceptor,
} from "@connectrpc/connect";
import type { IncomingHttpHeaders } from "node:http";
import type { Deadline } from "./deadline.ts";

/** A unary implementation as Connect's router takes it, types erased. */
export type UnaryImplementation = (message: Message, context: HandlerContext) => unknown;

/** A streaming one: it takes a message or an iterable of them, and gives one or the other, as its method says. */
export type StreamingImplementation = (input: never, context: HandlerContext) => unknown;

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
  readonly method: DescMethod;
  readonly service: DescService;
  readonly requestMethod: string;
  readonly protocolName = "http";
  readonly #origin: CallOrigin;
  readonly #deadline: Deadline | undefined;
  #requestHeader: Headers | undefined;
  #responseHeader: Headers | undefined;
  #responseTrailer: Headers | undefined;
  #values: ContextValues | undefined;
  #controller: AbortController | undefined;

  constructor(method: DescMethod, origin: CallOrigin, deadline?: Deadline) {
    this.method = method;
    this.service = method.parent;
    this.requestMethod = origin.httpMethod;
    this.#origin = origin;
    this.#deadline = deadline;
  }

  /** A closure, for an implementation may take it out of its context. */
  get timeoutMs(): () => number | undefined {
    return () => this.#deadline?.remainingMs();
  }

  get url(): string {
    return this.#origin.url();
  }

  get signal(): AbortSignal {
    if (this.#controller === undefined) {
      const controller = new AbortController();
      this.#origin.onAbort(() => controller.abort());
      this.#deadline?.expired.catch((error: unknown) => controller.abort(error));
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

  /** The call is over: aborts the signal, if someone holds it, for this reason. */
  finish(reason?: unknown): void {
    this.#deadline?.clear();
    this.#controller?.abort(reason);
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
export type Invoke = (message: Message, context: CallContext) => Message | Promise<Message>;

/** Own, and so survives a spread: the innermost function finds the context of a copied request too. */
const contextOf = Symbol("context");

/** What interceptors see of the request; it shows the context's lazy parts under their other names. */
class CallRequest {
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

class CallResponse {
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

/** Builds the chain of a unary method once. */
export function createInvoke(
  method: DescMethodUnary,
  implementation: UnaryImplementation,
  interceptors: readonly Interceptor[],
): Invoke {
  const output = (result: unknown): Message => normalize(method.output, result);
  if (interceptors.length === 0) {
    return (message, context) => {
      const result = implementation(message, context);
      return isThenable(result) ? Promise.resolve(result).then(output) : output(result);
    };
  }
  const call = createChain(interceptors, async (input, context, original) => {
    const result = await implementation(input as Message, context);
    return new CallResponse(false, output(result), original);
  });
  return (message, context) => call(new CallRequest(false, message, context)) as Promise<Message>;
}

function isThenable(value: unknown): value is PromiseLike<unknown> {
  return typeof value === "object" && value !== null && "then" in value && typeof value.then === "function";
}

/** Runs a streaming implementation behind its interceptors. */
export type InvokeStream = (messages: AsyncIterable<Message>, context: CallContext) => Promise<AsyncIterable<Message>>;

/**
 * Builds the chain of a streaming method once. As in Connect, an interceptor sees iterables both ways,
 * of one message where the method has one. Headers are those that are set when the first response comes.
 */
export function createStreamInvoke(
  method: DescMethodStreaming,
  implementation: StreamingImplementation,
  interceptors: readonly Interceptor[],
): InvokeStream {
  const takesOne = method.methodKind === "server_streaming";
  const givesOne = method.methodKind === "client_streaming";
  const call = createChain(interceptors, async (input, context, original) => {
    const messages = input as AsyncIterable<Message>;
    const result = implementation((takesOne ? await onlyMessage(messages) : messages) as never, context);
    const responses = givesOne
      ? iterableOfOne(normalize(method.output, await result))
      : normalizeAll(method.output, result as AsyncIterable<unknown>);
    return new CallResponse(true, responses, original);
  });
  return (messages, context) => call(new CallRequest(true, messages, context)) as Promise<AsyncIterable<Message>>;
}

/** Calls the implementation; `original` is the context that `context` is, or is a copy of. */
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
function createChain(
  interceptors: readonly Interceptor[],
  call: Innermost,
): (request: CallRequest) => Promise<CallResponse["message"]> {
  const innermost = (request: CallRequest): Promise<CallResponse> => {
    const original = request[contextOf];
    const context = request instanceof CallRequest ? original : copyContext(original, request);
    return call(request.message, context, original);
  };
  const chain = interceptors.reduceRight<(request: CallRequest) => Promise<CallResponse>>((next, interceptor) => {
    const intercepted = interceptor((async (request: CallRequest) =>
      completeResponse(await next(completeRequest(request)))) as unknown as Next) as unknown as typeof next;
    return intercepted;
  }, innermost);
  return async (request) => {
    const context = request[contextOf];
    const response = await chain(request);
    if (!(response instanceof CallResponse)) {
      const { header } = completeResponse(response);
      if (header !== context.responseHeader) {
        replaceHeaders(context.responseHeader, header);
      }
    }
    return response.message;
  };
}

function normalize(desc: DescMessage, result: unknown): Message {
  return isMessage(result, desc) ? result : create(desc, result as Record<string, unknown>);
}

/** No generator: its `return` must reach the implementation at once, even while a message is awaited. */
function normalizeAll(desc: DescMessage, results: AsyncIterable<unknown>): AsyncIterable<Message> {
  return mapMessages(results, (result) => normalize(desc, result));
}

/** Maps what an iterable gives; ending the iteration ends that of the source. */
export function mapMessages<From, To>(source: AsyncIterable<From>, map: (item: From) => To): AsyncIterable<To> {
  return {
    [Symbol.asyncIterator]() {
      const iterator = source[Symbol.asyncIterator]();
      return {
        async next() {
          const result = await iterator.next();
          if (result.done === true) {
            return { done: true, value: undefined };
          }
          try {
            return { done: false, value: map(result.value) };
          } catch (error) {
            // Who iterates takes an iterator that throws for one that has ended.
            await iterator.return?.();
            throw error;
          }
        },
        async return() {
          await iterator.return?.();
          return { done: true, value: undefined };
        },
      };
    },
  };
}

export async function* iterableOfOne(message: Message): AsyncGenerator<Message> {
  yield message;
}

/** An interceptor may have made something else of the one request message. */
async function onlyMessage(messages: AsyncIterable<Message>): Promise<Message> {
  let only: Message | undefined;
  for await (const message of messages) {
    if (only !== undefined) {
      throw new ConnectError("more than one request message for a method that takes one", Code.Unimplemented);
    }
    only = message;
  }
  if (only === undefined) {
    throw new ConnectError("no request message for a method that takes one", Code.Unimplemented);
  }
  return only;
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
