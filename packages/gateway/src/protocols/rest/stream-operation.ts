import { create, type Message } from "@bufbuild/protobuf";
import { Code, ConnectError } from "@connectrpc/connect";
import type { GatewayResponse } from "../../http/response.ts";
import { createBinder, createParameterFieldsReader } from "./request/bind.ts";
import { createVariantSelector, type Route, type Variant } from "../../routing/route.ts";
import { createStreamInvoke, iterableOfOne } from "../../call/invoke.ts";
import type { Invocation } from "../../call/runner.ts";
import { codeOfStatus, nameOfCode } from "../../errors/codes.ts";
import { unwrapGoogleError } from "../../errors/format.ts";
import { createNegotiation, createStreamNegotiation } from "./negotiate.ts";
import { createCallPipeline } from "./pipeline.ts";
import { RequestError } from "../../http/request-error.ts";
import { findRawBody } from "../../schema/http-body.ts";
import type { StreamImplementation } from "../../call/implementations.ts";
import type { ServedOperation, OperationOptions } from "./operation.ts";
import type { GatewayRequest } from "../../http/request.ts";
import { maxBodyBytesOf, methodRule } from "../../schema/rules.ts";
import { createRequestMessages } from "./stream/request-messages.ts";
import { isAfterEnd } from "./stream/framing.ts";
import type { RespondStream } from "./stream/respond.ts";
import { CancellableIterator } from "../../call/cancellable-iterator.ts";

/**
 * Reads the request messages of a call: the single one of a server stream, or the messages in a client stream's body.
 */
type ReadRequests = (
  request: GatewayRequest,
  pathVariables: readonly string[],
  /** Called for an invalid message after the implementation was started. */
  onRequestError: (error: RequestError) => void,
) => Promise<AsyncIterable<Message>>;

type CompiledVariant = {
  readonly read: ReadRequests;
  /** Throws a RequestError of status 406 if the client accepts no supported format. */
  readonly negotiate: (request: GatewayRequest) => RespondStream;
};

/**
 * Compiles a streaming RPC. Accept determines the format of a server stream. Bidirectional streams are NDJSON and
 * require HTTP/2, since HTTP/1.1 clients and proxies don't read a response before the request was sent completely.
 */
export function createStreamOperation(
  implementation: StreamImplementation,
  route: Route,
  options: OperationOptions,
): ServedOperation {
  const { method, kind } = implementation;
  const invoke = createStreamInvoke(method, implementation.call, options.interceptors);
  const select = createVariantSelector(
    route.method,
    route.variants.map((variant): [string | undefined, CompiledVariant] => [
      variant.value,
      {
        read:
          kind === "server_streaming"
            ? createSingleReader(route, variant, options)
            : createStreamReader(route, variant, options),
        negotiate:
          kind === "client_streaming"
            ? createSingleResponder(route, variant, options)
            : createStreamNegotiation(route, variant, options, kind === "bidi_streaming"),
      },
    ]),
  );
  const pipeline = createCallPipeline(method, route, options);
  const hasGoogleErrors = options.errors === "google";

  const call = async ({ request, pathVariables, context, deadline }: Invocation): Promise<GatewayResponse> => {
    if (kind === "bidi_streaming" && request.httpVersionMajor < 2) {
      throw new RequestError(505, "http_version_not_supported", "a bidirectional stream requires HTTP/2");
    }
    if (kind === "server_streaming" && isAfterEnd(request.headers)) {
      context.finish();
      return { status: 204, headers: {}, body: undefined };
    }
    const variant = select(request.headers);
    const respond = variant.negotiate(request);
    // Takes precedence over the error that the implementation throws as a consequence.
    let requestError: RequestError | undefined;
    context.observeClient();
    const requests = await variant.read(request, pathVariables, (error) => {
      requestError = error;
    });
    const formatError = (error: unknown, isWrapped: boolean): string => {
      const json = errorToJson(pipeline.errorResponse(requestError ?? error, { request, context }), error);
      return hasGoogleErrors && isWrapped ? unwrapGoogleError(json) : json;
    };
    try {
      const responses = await invoke(requests, context);
      return await respond({ request, context, deadline, responses, formatError });
    } catch (error) {
      throw requestError ?? error;
    }
  };

  return { run: (request, pathVariables) => pipeline.run(call, request, pathVariables) };
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
    ignoreUnknown: ignoreUnknown || options.jsonOptions.ignoreUnknownFields,
    ignoreEnumCase: options.jsonOptions.ignoreEnumCase,
    maxBytes: maxBodyBytesOf(route.method, options.readMaxBytes),
    maxDepth: options.maxDepth,
    prototypeKeys: options.prototypeKeys,
    registry: options.registry,
    setMask: undefined,
  });
  // The chunks of a raw body form one document: only the first message has the fields of path and query.
  const isRaw = findRawBody(input, variant.body) !== undefined;
  return async (request, pathVariables, onRequestError) => {
    const parameters = readParameters(request, pathVariables);
    // Validates the query before the implementation is called.
    parameters.assignTo(create(input));
    return assignParameters(readMessages(request), parameters, isRaw, onRequestError);
  };
}

async function* assignParameters(
  messages: AsyncIterable<Message>,
  parameters: { assignTo(message: Message): void },
  onlyFirst: boolean,
  onRequestError: (error: RequestError) => void,
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
    onRequestError(error);
    // Implementations expect ConnectErrors; the response is made from the RequestError.
    throw new ConnectError(error.message, codeOfStatus(error.status), undefined, undefined, error);
  }
}

/** The response to a client stream is the same as that to a unary call. */
function createSingleResponder(
  route: Route,
  variant: Variant,
  options: OperationOptions,
): CompiledVariant["negotiate"] {
  const negotiate = createNegotiation(route, variant, options);
  const openStreams = options.openStreamsOf(options.shutdownSignal);
  return (negotiated) => {
    const respond = negotiate(negotiated);
    return async ({ request, context, deadline, responses }) => {
      const source = new CancellableIterator(responses, deadline);
      const unregister = openStreams.register((error) => source.fail(error));
      request.onAbort(() => source.cancel());
      const first = await source.next().finally(unregister);
      source.cancel();
      if (first.done === true) {
        throw new ConnectError("no response message from a method that returns one", Code.Internal);
      }
      const response = respond(request, first.value, context);
      context.finish();
      return response;
    };
  };
}

/** The body of an error response as one line of JSON; `{code, message}` if the body is not one. */
function errorToJson({ headers, body }: GatewayResponse, error: unknown): string {
  const type = headers["content-type"];
  return typeof body === "string" && typeof type === "string" && /[/+]json/.test(type) && !body.includes("\n")
    ? body
    : JSON.stringify(
        error instanceof ConnectError
          ? { code: nameOfCode(error.code), message: error.rawMessage }
          : { code: "internal", message: "internal error" },
      );
}
