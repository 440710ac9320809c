import {
  create,
  isMessage,
  type DescMessage,
  type DescMethodStreaming,
  type DescMethodUnary,
  type Message,
} from "@bufbuild/protobuf";
import { Code, ConnectError, type HandlerContext, type Interceptor } from "@connectrpc/connect";
import { CallRequest, CallResponse, createChain } from "./chain.ts";
import type { CallContext } from "./context.ts";
import { done, openPollable, PollableIterator } from "./pollable-iterator.ts";

export type UnaryFunction = (message: Message, context: HandlerContext) => unknown;

/** The function that implements a streaming RPC: takes, and returns, a message or an iterable of messages, depending on its method. */
export type StreamingFunction = (input: never, context: HandlerContext) => unknown;

/** Calls an implementation through its interceptors. May throw instead of rejecting. */
export type Invoke = (message: Message, context: CallContext) => Message | Promise<Message>;

export function createInvoke(
  method: DescMethodUnary,
  implementation: UnaryFunction,
  interceptors: readonly Interceptor[],
): Invoke {
  const output = (result: unknown): Message => normalize(method.output, result);
  if (interceptors.length === 0) {
    return (message, context) => {
      context.throwIfAborted();
      const result = implementation(message, context);
      return isThenable(result) ? Promise.resolve(result).then(output) : output(result);
    };
  }
  const call = createChain(interceptors, (input, context, original) => {
    const toResponse = (result: unknown): CallResponse => new CallResponse(false, output(result), original);
    const result = implementation(input as Message, context);
    return isThenable(result) ? Promise.resolve(result).then(toResponse) : Promise.resolve(toResponse(result));
  });
  return (message, context) => call(new CallRequest(false, message, context)) as Promise<Message>;
}

function isThenable(value: unknown): value is PromiseLike<unknown> {
  return typeof value === "object" && value !== null && "then" in value && typeof value.then === "function";
}

export type InvokeStream = (messages: AsyncIterable<Message>, context: CallContext) => Promise<AsyncIterable<Message>>;

/**
 * Compiles the interceptor chain of a streaming method. As in Connect, interceptors receive iterables for requests and
 * responses, also where the method has a single message. Headers must be set before the first response message.
 */
export function createStreamInvoke(
  method: DescMethodStreaming,
  implementation: StreamingFunction,
  interceptors: readonly Interceptor[],
): InvokeStream {
  const hasSingleRequest = method.methodKind === "server_streaming";
  const hasSingleResponse = method.methodKind === "client_streaming";
  const call = createChain(interceptors, async (input, context, original) => {
    const messages = input as AsyncIterable<Message>;
    const result = implementation((hasSingleRequest ? await readSingleMessage(messages) : messages) as never, context);
    const responses = hasSingleResponse
      ? iterableOfOne(normalize(method.output, await result))
      : new NormalizedIterator(method.output, result as AsyncIterable<unknown>);
    return new CallResponse(true, responses, original);
  });
  return (messages, context) => call(new CallRequest(true, messages, context)) as Promise<AsyncIterable<Message>>;
}

function normalize(desc: DescMessage, result: unknown): Message {
  return isMessage(result, desc) ? result : create(desc, result as Record<string, unknown>);
}

/** Not a generator, since `return` must reach the implementation immediately, even while a message is awaited. */
class NormalizedIterator extends PollableIterator<Message> {
  readonly #desc: DescMessage;
  readonly #results: PollableIterator<unknown>;

  constructor(desc: DescMessage, results: AsyncIterable<unknown>) {
    super();
    this.#desc = desc;
    this.#results = openPollable(results);
  }

  poll(onReady: () => void): IteratorResult<Message, undefined> | undefined {
    const result = this.#results.poll(onReady);
    if (result === undefined || result.done === true || isMessage(result.value, this.#desc)) {
      return result as IteratorResult<Message, undefined> | undefined;
    }
    try {
      return { done: false, value: normalize(this.#desc, result.value) };
    } catch (error) {
      // A `for await` does not call `return` of an iterator that has thrown.
      this.#results.return().catch(() => {});
      throw error;
    }
  }

  override async return(): Promise<IteratorResult<Message, undefined>> {
    await this.#results.return();
    return done;
  }
}

export async function* iterableOfOne(message: Message): AsyncGenerator<Message> {
  yield message;
}

/** Reads the request message of a method that takes one; an interceptor may have changed the number of messages. */
async function readSingleMessage(messages: AsyncIterable<Message>): Promise<Message> {
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
