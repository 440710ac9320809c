import { create, type Message } from "@bufbuild/protobuf";
import { Code, ConnectError } from "@connectrpc/connect";
import { createAcceptCheck } from "../response/accept.ts";
import type { TranscodingResponse } from "../http/response.ts";
import { createBinder, createParameterFieldsReader } from "../request/bind.ts";
import { createSelector, type Route, type Variant } from "../routing/route.ts";
import { createStreamInvoke, iterableOfOne } from "../call/invoke.ts";
import type { Invocation } from "../call/runner.ts";
import { codeOfStatus, nameOfCode } from "../errors/codes.ts";
import { createCallPipeline } from "./pipeline.ts";
import { RequestError } from "../http/request-error.ts";
import { findRawBody } from "../schema/http-body.ts";
import type { StreamImplementation } from "../call/implementations.ts";
import type { Operation, OperationOptions } from "./operation.ts";
import type { TranscodingRequest } from "../http/request.ts";
import { createResponder } from "../response/respond.ts";
import { maxBodyBytesOf, methodRule } from "../schema/rules.ts";
import { createRequestMessages } from "../stream/request-messages.ts";
import { createStreamResponder, type StreamCall } from "../stream/respond.ts";
import { untilShutdown } from "../stream/shutdown.ts";
import { openCancellable } from "../stream/cancellable-iterator.ts";

/** Gives the request messages of a call: one of a server stream, those of the body of a client stream. */
type ReadRequests = (
  request: TranscodingRequest,
  pathVariables: readonly string[],
  /** Told of what is wrong with a message that the implementation is already waiting for. */
  onFault: (fault: RequestError) => void,
) => Promise<AsyncIterable<Message>>;

/** Answers with the responses of a call. It rejects where an error comes before the first. */
type Respond = (call: StreamCall) => Promise<TranscodingResponse>;

type Shape = {
  readonly read: ReadRequests;
  /** Throws a RequestError 406 where the client takes nothing that could be sent. */
  readonly negotiate: (request: TranscodingRequest) => Respond;
};

/**
 * Compiles an RPC that streams. The messages of a server stream are sent as they come, framed as Accept asks;
 * those of a client stream are read as they arrive. Streams both ways are NDJSON, and want HTTP/2: of HTTP/1.1, clients
 * and proxies read no answer before all of the request was sent.
 */
export function createStreamOperation(
  implementation: StreamImplementation,
  route: Route,
  options: OperationOptions,
): Operation {
  const { method, kind } = implementation;
  const { shutdownSignal } = options.streams;
  const invoke = createStreamInvoke(method, implementation.call, options.interceptors);
  const select = createSelector(
    route.method,
    route.variants.map((variant): [string | undefined, Shape] => [
      variant.value,
      {
        read:
          kind === "server_streaming"
            ? createSingleReader(route, variant, options)
            : createStreamReader(route, variant, options),
        negotiate:
          kind === "client_streaming"
            ? createSingleResponder(route, variant, options)
            : createNegotiation(route, variant, options, kind === "bidi_streaming"),
      },
    ]),
  );
  const pipeline = createCallPipeline(method, route, options);

  const answer = async ({ request, pathVariables, context, deadline }: Invocation): Promise<TranscodingResponse> => {
    if (kind === "bidi_streaming" && request.httpVersionMajor < 2) {
      throw new RequestError(505, "http_version_not_supported", "a stream both ways needs HTTP/2");
    }
    const shape = select(request.headers);
    const respond = shape.negotiate(request);
    // The implementation fails because of it, with whatever it makes of it.
    let fault: RequestError | undefined;
    context.listen();
    const requests = await shape.read(request, pathVariables, (found) => {
      fault = found;
    });
    const formatError = (error: unknown): string => errorText(pipeline.failureAnswer(fault ?? error, context), error);
    try {
      const invoked = await invoke(requests, context);
      const responses = shutdownSignal === undefined ? invoked : untilShutdown(invoked, shutdownSignal);
      return await respond({ request, context, deadline, responses, formatError });
    } catch (error) {
      throw fault ?? error;
    }
  };

  return { method, run: (request, pathVariables) => pipeline.run(answer, request, pathVariables) };
}

function createSingleReader(route: Route, variant: Variant, options: OperationOptions): ReadRequests {
  const bind = createBinder(route, variant, options);
  return async (request, pathVariables) => iterableOfOne(await bind(request, pathVariables));
}

function createStreamReader(route: Route, variant: Variant, options: OperationOptions): ReadRequests {
  const { input } = route.method;
  const { consumes, ignoreUnknown } = methodRule(route.method);
  const readParameters = createParameterFieldsReader(route, variant, options);
  const readMessages = createRequestMessages(input, {
    body: variant.body,
    consumes,
    ignoreUnknown,
    maxBytes: maxBodyBytesOf(route.method, options.maxBodyBytes),
    maxDepth: options.maxDepth,
    registry: options.registry,
  });
  // The chunks of a raw body are one thing, which the path and the query say something of: the first has it.
  const isRaw = findRawBody(input, variant.body) !== undefined;
  return async (request, pathVariables, onFault) => {
    const parameters = readParameters(request, pathVariables);
    // What is wrong with it is found before the implementation runs.
    parameters.assignTo(create(input));
    return fillMessages(readMessages(request), parameters, isRaw, onFault);
  };
}

async function* fillMessages(
  messages: AsyncIterable<Message>,
  parameters: { assignTo(message: Message): void },
  onlyFirst: boolean,
  onFault: (fault: RequestError) => void,
): AsyncGenerator<Message> {
  let isFirst = true;
  try {
    for await (const message of messages) {
      if (isFirst || !onlyFirst) {
        parameters.assignTo(message);
        isFirst = false;
      }
      yield message;
    }
  } catch (error) {
    if (!(error instanceof RequestError)) {
      throw error;
    }
    onFault(error);
    // Implementations know errors of this kind; what is answered is the fault.
    throw new ConnectError(error.message, codeOfStatus(error.status), undefined, undefined, error);
  }
}

function createNegotiation(
  { method }: Route,
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
function createSingleResponder({ method }: Route, variant: Variant, options: OperationOptions): Shape["negotiate"] {
  const respond = createResponder(method, variant, options);
  const assertAccepted = createAcceptCheck(method, variant, options.compressor);
  const answer: Respond = async ({ request, context, deadline, responses }) => {
    const source = openCancellable(responses, deadline);
    request.onAbort(() => source.cancel());
    const first = await source.next();
    source.cancel();
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
function errorText({ headers, body }: TranscodingResponse, error: unknown): string {
  const type = headers["content-type"];
  return typeof body === "string" && typeof type === "string" && /[/+]json/.test(type) && !body.includes("\n")
    ? body
    : JSON.stringify(
        error instanceof ConnectError
          ? { code: nameOfCode(error.code), message: error.rawMessage }
          : { code: "internal", message: "internal error" },
      );
}
