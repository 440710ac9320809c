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

/** A unary implementation as Connect's router takes it, types erased. */
export type UnaryImplementation = (message: Message, context: HandlerContext) => unknown;

/** A streaming one: it takes a message or an iterable of them, and gives one or the other, as its method says. */
export type StreamingImplementation = (input: never, context: HandlerContext) => unknown;

/** Runs an implementation behind its interceptors. May throw instead of rejecting. */
export type Invoke = (message: Message, context: CallContext) => Message | Promise<Message>;

/** Builds the chain of a unary method once. */
export function createInvoke(
  method: DescMethodUnary,
  implementation: UnaryImplementation,
  interceptors: readonly Interceptor[],
): Invoke {
  const output = (result: unknown): Message => normalize(method.output, result);
  if (interceptors.length === 0) {
    return (message, context) => {
      context.assertAwaited();
      const result = implementation(message, context);
      return isThenable(result) ? Promise.resolve(result).then(output) : output(result);
    };
  }
  const call = createChain(interceptors, (input, context, original) => {
    const respond = (result: unknown): CallResponse => new CallResponse(false, output(result), original);
    const result = implementation(input as Message, context);
    return isThenable(result) ? Promise.resolve(result).then(respond) : Promise.resolve(respond(result));
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
