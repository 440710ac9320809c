import { create, type Message } from "@bufbuild/protobuf";
import { Code, ConnectError } from "@connectrpc/connect";
import { createAcceptCheck } from "../response/accept.ts";
import type { Answer } from "../http/answer.ts";
import { createBinder, createFrameReader } from "../request/bind.ts";
import { createSelector, type Binding, type Variant } from "../routing/binding.ts";
import { createStreamInvoke, iterableOfOne } from "../call/invoke.ts";
import type { Arrival } from "../call/runner.ts";
import { codeOfStatus, nameOfCode } from "../errors/codes.ts";
import { createEnvelope } from "./envelope.ts";
import { Fault } from "../http/fault.ts";
import { findRawBody } from "../schema/http-body.ts";
import type { StreamImplementation } from "../call/implementations.ts";
import type { Operation, OperationOptions } from "./operation.ts";
import type { TranscodingRequest } from "../http/request.ts";
import { createResponder } from "../response/respond.ts";
import { maxBodyBytesOf, methodRule } from "../schema/rules.ts";
import { createRequestMessages } from "../stream/request-messages.ts";
import { createStreamResponder, type StreamCall } from "../stream/respond.ts";
import { untilShutdown } from "../stream/shutdown.ts";
import { openSource } from "../stream/source.ts";

/** Gives the request messages of a call: one of a server stream, those of the body of a client stream. */
type ReadRequests = (
  request: TranscodingRequest,
  captures: readonly string[],
  /** Told of what is wrong with a message that the implementation is already waiting for. */
  onFault: (fault: Fault) => void,
) => Promise<AsyncIterable<Message>>;

/** Answers with the responses of a call. It rejects where an error comes before the first. */
type Respond = (call: StreamCall) => Promise<Answer>;

type Shape = {
  readonly read: ReadRequests;
  /** Throws a Fault 406 where the client takes nothing that could be sent. */
  readonly negotiate: (request: TranscodingRequest) => Respond;
};

/**
 * Compiles an RPC that streams. The messages of a server stream are sent as they come, framed as Accept asks;
 * those of a client stream are read as they arrive. Streams both ways are NDJSON, and want HTTP/2: of HTTP/1.1, clients
 * and proxies read no answer before all of the request was sent.
 */
export function createStreamOperation(
  implementation: StreamImplementation,
  binding: Binding,
  options: OperationOptions,
): Operation {
  const { method, kind } = implementation;
  const { shutdownSignal } = options.streams;
  const invoke = createStreamInvoke(method, implementation.call, options.interceptors);
  const select = createSelector(
    binding.method,
    binding.variants.map((variant): [string | undefined, Shape] => [
      variant.value,
      {
        read:
          kind === "server_streaming"
            ? createSingleReader(binding, variant, options)
            : createStreamReader(binding, variant, options),
        negotiate:
          kind === "client_streaming"
            ? createSingleResponder(binding, variant, options)
            : createNegotiation(binding, variant, options, kind === "bidi_streaming"),
      },
    ]),
  );
  const envelope = createEnvelope(method, binding, options);

  const answer = async ({ request, captures, context, deadline }: Arrival): Promise<Answer> => {
    if (kind === "bidi_streaming" && request.httpVersionMajor < 2) {
      throw new Fault(505, "http_version_not_supported", "a stream both ways needs HTTP/2");
    }
    const shape = select(request.headers);
    const respond = shape.negotiate(request);
    // The implementation fails because of it, with whatever it makes of it.
    let fault: Fault | undefined;
    context.listen();
    const requests = await shape.read(request, captures, (found) => {
      fault = found;
    });
    const formatError = (error: unknown): string => errorText(envelope.failureAnswer(fault ?? error, context), error);
    try {
      const invoked = await invoke(requests, context);
      const responses = shutdownSignal === undefined ? invoked : untilShutdown(invoked, shutdownSignal);
      return await respond({ request, context, deadline, responses, formatError });
    } catch (error) {
      throw fault ?? error;
    }
  };

  return { method, run: (request, captures) => envelope.run(answer, request, captures) };
}

function createSingleReader(binding: Binding, variant: Variant, options: OperationOptions): ReadRequests {
  const bind = createBinder(binding, variant, options);
  return async (request, captures) => iterableOfOne(await bind(request, captures));
}

function createStreamReader(binding: Binding, variant: Variant, options: OperationOptions): ReadRequests {
  const { input } = binding.method;
  const { consumes, ignoreUnknown } = methodRule(binding.method);
  const readFrame = createFrameReader(binding, variant, options);
  const readMessages = createRequestMessages(input, {
    body: variant.body,
    consumes,
    ignoreUnknown,
    maxBytes: maxBodyBytesOf(binding.method, options.maxBodyBytes),
    maxDepth: options.maxDepth,
    registry: options.registry,
  });
  // The chunks of a raw body are one thing, which the path and the query say something of: the first has it.
  const isRaw = findRawBody(input, variant.body) !== undefined;
  return async (request, captures, onFault) => {
    const frame = readFrame(request, captures);
    // What is wrong with it is found before the implementation runs.
    frame.fill(create(input));
    return fillMessages(readMessages(request), frame, isRaw, onFault);
  };
}

async function* fillMessages(
  messages: AsyncIterable<Message>,
  frame: { fill(message: Message): void },
  onlyFirst: boolean,
  onFault: (fault: Fault) => void,
): AsyncGenerator<Message> {
  let isFirst = true;
  try {
    for await (const message of messages) {
      if (isFirst || !onlyFirst) {
        frame.fill(message);
        isFirst = false;
      }
      yield message;
    }
  } catch (error) {
    if (!(error instanceof Fault)) {
      throw error;
    }
    onFault(error);
    // Implementations know errors of this kind; what is answered is the fault.
    throw new ConnectError(error.message, codeOfStatus(error.status), undefined, undefined, error);
  }
}

function createNegotiation(
  { method }: Binding,
  variant: Variant,
  options: OperationOptions,
  onlyNdjson: boolean,
): Shape["negotiate"] {
  const negotiate = createStreamResponder(method, variant, {
    ...options.streams,
    registry: options.registry,
    onlyNdjson,
  });
  const compressor = options.compression?.streams === true ? options.compressor : undefined;
  return ({ headers }) => {
    const respond = negotiate(headers.accept);
    compressor?.assertAccepted(headers["accept-encoding"]);
    return respond;
  };
}

/** The answer to a client stream is that of a unary call. */
function createSingleResponder({ method }: Binding, variant: Variant, options: OperationOptions): Shape["negotiate"] {
  const respond = createResponder(method, variant, options);
  const assertAccepted = createAcceptCheck(method, variant, options.compressor);
  const answer: Respond = async ({ request, context, deadline, responses }) => {
    const source = openSource(responses, deadline);
    request.onAbort(() => source.leave());
    const first = await source.next();
    source.leave();
    if (first.done === true) {
      throw new ConnectError("no response message of a method that gives one", Code.Internal);
    }
    context.finish();
    return respond(request, first.value, context.setHeaders());
  };
  return ({ headers }) => {
    assertAccepted(headers);
    return answer;
  };
}

/** An error's body as one line of JSON; where its shape has none, as any other error has it. */
function errorText({ headers, body }: Answer, error: unknown): string {
  const type = headers["content-type"];
  return typeof body === "string" && typeof type === "string" && /[/+]json/.test(type) && !body.includes("\n")
    ? body
    : JSON.stringify(
        error instanceof ConnectError
          ? { code: nameOfCode(error.code), message: error.rawMessage }
          : { code: "internal", message: "internal error" },
      );
}
