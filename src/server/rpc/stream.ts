import { Code, ConnectError, type ConnectRouter } from "@connectrpc/connect";
import type { Logger } from "pino";
import { type Answer, Fault } from "../../transcoding/core.ts";
import { internalMessage } from "../interceptors.ts";
import type { RequestContext } from "../pipeline/request-context.ts";
import { refusalAnswer } from "../refusal.ts";
import { capDeadline } from "./deadline-cap.ts";
import { formatGrpcMessage } from "./grpc-message.ts";
import { refuseRpc } from "./refuse-rpc.ts";

export type UniversalHandler = ConnectRouter["handlers"][number];

type UniversalAnswer = Awaited<ReturnType<UniversalHandler>>;

/** Serves an RPC that streams by Connect's own handler. Never rejects. */
export async function serveStream(
  handler: UniversalHandler,
  request: RequestContext,
  maxTimeoutMs: number,
  log: Logger,
): Promise<Answer> {
  const header = headersOf(request);
  capDeadline(header, maxTimeoutMs);
  const left = new AbortController();
  request.onAbort(() => left.abort(new ConnectError("the client is gone", Code.Canceled)));
  try {
    const answer = await handler({
      httpVersion: request.exchange.httpVersion,
      method: request.httpMethod,
      url: request.url(),
      header,
      body: bodyOf(request),
      signal: left.signal,
      contextValues: request.contextValues(),
    });
    return answer.body === undefined && answer.status >= 400
      ? refuseRpc(request, answer.status, handler.allowedMethods)
      : toAnswer(answer);
  } catch (error) {
    const { requestId, traceIds } = request;
    if (!left.signal.aborted) {
      log.error({ requestId, ...traceIds, err: error }, "an RPC could not be answered");
    }
    request.fail(Code.Internal);
    return refusalAnswer(500, internalMessage(requestId));
  }
}

function headersOf({ headers }: RequestContext): Headers {
  const header = new Headers();
  for (const [name, value] of Object.entries(headers)) {
    // Pseudo-header fields of HTTP/2 are no headers.
    if (value !== undefined && !name.startsWith(":")) {
      for (const each of [value].flat()) {
        header.append(name, each);
      }
    }
  }
  return header;
}

async function* bodyOf(request: RequestContext): AsyncGenerator<Uint8Array> {
  try {
    yield* request.streamBody();
  } catch (error) {
    throw error instanceof Fault ? new ConnectError(error.message, Code.Canceled) : error;
  }
}

function toAnswer({ status, header, body, trailer }: UniversalAnswer): Answer {
  const headers: Answer["headers"] = {};
  for (const [name, value] of header ?? []) {
    headers[name] = value;
  }
  if (body === undefined || trailer === undefined) {
    return { status, headers, body: body as AsyncIterable<Uint8Array> | undefined };
  }
  const trailers: Answer["headers"] = {};
  return { status, headers, body: withTrailers(body, trailer, trailers), trailers };
}

/** Fills in the trailers when the body has ended. */
async function* withTrailers(
  body: AsyncIterable<Uint8Array>,
  trailer: Headers,
  trailers: Answer["headers"],
): AsyncGenerator<Uint8Array> {
  yield* body;
  for (const [name, value] of trailer) {
    // Connect escapes more of it than the protocol says, and grpc-js shows that as it is.
    trailers[name] = name === "grpc-message" ? formatGrpcMessage(decodeURIComponent(value)) : value;
  }
}
