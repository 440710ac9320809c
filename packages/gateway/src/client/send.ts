import { create, type DescMessage, type Message, type MessageShape } from "@bufbuild/protobuf";
import {
  Code,
  ConnectError,
  type StreamRequest,
  type StreamResponse,
  type UnaryRequest,
  type UnaryResponse,
} from "@connectrpc/connect";
import { formatTarget, type Choice, type Mapping, type CalledOperation } from "./operation.ts";
import type { CompleteTransportOptions } from "./options.ts";
import type { RequestBody } from "./request/body.ts";
import { assertStreamingBodies, createBodyStream } from "./request/stream-body.ts";
import { toCallError, readChunks } from "./stream/read-chunks.ts";
import { isJson } from "./response/unary.ts";
import { invalidArgument } from "./request/invalid-argument.ts";

export async function sendUnary<I extends DescMessage, O extends DescMessage>(
  operation: CalledOperation,
  request: UnaryRequest<I, O>,
  options: CompleteTransportOptions,
): Promise<UnaryResponse<I, O>> {
  const { service, method, message, header, signal } = request;
  const { path, mapping } = operation.choose(message, header);
  const prepared = withEncodingErrors(() => prepare(mapping, path, message, header));
  const response = await send(operation, options, { ...prepared, signal });
  return {
    stream: false,
    service,
    method,
    header: response.headers,
    trailer: new Headers(),
    message: (await readOne(response, mapping, signal)) as MessageShape<O>,
  };
}

/** Makes a call that streams in one direction or both. Resolves when the server has responded. */
export async function sendStreaming<I extends DescMessage, O extends DescMessage>(
  operation: CalledOperation,
  request: StreamRequest<I, O>,
  options: CompleteTransportOptions,
): Promise<StreamResponse<I, O>> {
  const { method, header, signal } = request;
  const messages: AsyncIterator<Message> = request.message[Symbol.asyncIterator]();
  const { value, done } = await messages.next();
  const first = done === true ? undefined : value;
  if (first === undefined && method.methodKind === "server_streaming") {
    throw new ConnectError("the call has no request message", Code.InvalidArgument);
  }
  const choice = operation.choose(first ?? create(method.input), header);
  // Node decompresses a stream on another thread, and drops its end when the server aborts it after an error.
  if (!header.has("accept-encoding")) {
    header.set("accept-encoding", "identity");
  }
  const { mapping } = choice;
  const response =
    method.methodKind === "server_streaming" && first !== undefined
      ? await send(operation, options, {
          ...withEncodingErrors(() => prepare(mapping, choice.path, first, header)),
          signal,
        })
      : await sendMessages(operation, options, { choice, first, messages, header, signal });
  return {
    ...request,
    header: response.headers,
    trailer: new Headers(),
    message: (method.methodKind === "client_streaming"
      ? iterableOfOne(() => readOne(response, mapping, signal))
      : mapping.readStream(response, readChunks(response, signal))) as AsyncIterable<MessageShape<O>>,
  };
}

type ClientStream = {
  readonly choice: Choice;
  readonly first: Message | undefined;
  readonly messages: AsyncIterator<Message>;
  readonly header: Headers;
  readonly signal: AbortSignal;
};

/** Streams messages as the body. The first one has the path, the query and the headers. */
async function sendMessages(
  operation: CalledOperation,
  options: CompleteTransportOptions,
  { choice, first, messages, header, signal }: ClientStream,
): Promise<Response> {
  const { path, mapping } = choice;
  assertStreamingBodies();
  // `fetch` does not always reject with the error of the body stream.
  let failure: { readonly error: unknown } | undefined;
  const remember = (error: unknown): never => {
    failure = { error };
    throw error;
  };
  const check = createParameterCheck(choice, first);
  const write = (message: Message, isFirst: boolean): Uint8Array => {
    check(message);
    return mapping.streamBody.encode(message, isFirst);
  };
  const body = createBodyStream(
    {
      next: () => messages.next().catch(remember),
      return: async () => (await messages.return?.()) ?? { done: true, value: undefined },
    },
    first,
    {
      encode(message, isFirst) {
        try {
          return withEncodingErrors(() => write(message, isFirst));
        } catch (error) {
          return remember(error);
        }
      },
      end: mapping.streamBody.end,
    },
  );
  const query = first === undefined ? [] : withEncodingErrors(() => mapping.writeQuery(first));
  setHeaders(mapping, first, header);
  header.set("content-type", mapping.streamBody.contentTypeOf(first));
  try {
    return await send(operation, options, {
      target: formatTarget(path, query),
      httpMethod: mapping.httpMethod,
      header,
      body,
      signal,
    });
  } catch (error) {
    throw failure === undefined ? error : failure.error;
  }
}

type PreparedRequest = {
  readonly target: string;
  readonly httpMethod: string;
  readonly header: Headers;
  readonly body: RequestBody["body"] | ReadableStream<Uint8Array> | undefined;
};

function prepare(mapping: Mapping, path: string, message: Message, header: Headers): PreparedRequest {
  const content = mapping.writeBody(message);
  setHeaders(mapping, message, header);
  if (content === undefined) {
    header.delete("content-type");
  } else {
    header.set("content-type", content.contentType);
  }
  return {
    target: formatTarget(path, mapping.writeQuery(message)),
    httpMethod: mapping.httpMethod,
    header,
    body: content?.body,
  };
}

function setHeaders({ accept, variant, writeHeaders }: Mapping, message: Message | undefined, header: Headers): void {
  if (accept !== undefined) {
    header.set("accept", accept);
  }
  if (variant !== undefined) {
    header.set(variant.header, variant.value);
  }
  if (message !== undefined) {
    writeHeaders(message, header);
  }
}

/** Runs a writer. Converts an error for a message that is not valid for its type to a ConnectError. */
function withEncodingErrors<T>(write: () => T): T {
  try {
    return write();
  } catch (cause) {
    throw cause instanceof ConnectError
      ? cause
      : new ConnectError(`can't encode the request: ${String(cause)}`, Code.Internal, undefined, undefined, cause);
  }
}

/** Makes the HTTP request. Throws a ConnectError for a response that is not successful. */
async function send(
  { errors }: CalledOperation,
  { baseUrl, fetch }: CompleteTransportOptions,
  { target, httpMethod, header, body, signal }: PreparedRequest & { readonly signal: AbortSignal },
): Promise<Response> {
  try {
    const response = await fetch(`${baseUrl}${target}`, {
      method: httpMethod,
      headers: header,
      signal,
      // A redirect may change the method, and send the headers to another server.
      redirect: "manual",
      ...(body !== undefined && { body }),
      ...(body instanceof ReadableStream && { duplex: "half" }),
    });
    if (response.ok) {
      return response;
    }
    const text = await response.text();
    throw errors.fromResponse(response, text, isJson(response.headers.get("content-type")) ? parse(text) : undefined);
  } catch (error) {
    throw toCallError(error, signal);
  }
}

/** Undefined if the body is empty, or not JSON. */
function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

async function readOne(response: Response, { readUnary }: Mapping, signal: AbortSignal): Promise<Message> {
  try {
    return await readUnary(response);
  } catch (error) {
    throw toCallError(error, signal);
  }
}

async function* iterableOfOne<T>(produce: () => Promise<T>): AsyncGenerator<T> {
  yield await produce();
}

/**
 * Creates the check of the messages after the first one of a client stream. A request has one path and one query, those of the first
 * message. The check throws a ConnectError for a message with different values; fields of the path and query may also be unset.
 */
function createParameterCheck(
  { path, writePath, mapping }: Choice,
  first: Message | undefined,
): (message: Message) => void {
  const sent = new Set((first === undefined ? [] : mapping.writeQuery(first)).map((parameter) => parameter.join("=")));
  return (message) => {
    if (message === first) {
      return;
    }
    const own = writePath(message);
    const other = mapping.writeQuery(message).find((parameter) => !sent.has(parameter.join("=")));
    if (other !== undefined || (own.isSet && own.path !== path)) {
      throw invalidArgument(
        `${other?.[0] ?? "the path"}: must be the same in all messages of the stream, because it is not in the body`,
      );
    }
  };
}
