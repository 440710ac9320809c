import type { Message } from "@bufbuild/protobuf";
import { CancellableIterator } from "../../call/cancellable-iterator.ts";
import { type CallContext, setHeadersOf } from "../../call/context.ts";
import { withReservation } from "../../call/decompress-in-steps.ts";
import { type InvokeStream, iterableOfOne } from "../../call/invoke.ts";
import type { PerformCall } from "../../call/runner.ts";
import type { OpenStreams } from "../../call/shutdown.ts";
import { RequestError } from "../../http/request-error.ts";
import type { GatewayRequest } from "../../http/request.ts";
import type { GatewayResponse } from "../../http/response.ts";
import type { Codec } from "./codec.ts";
import { type MessageCompression, requestCompression, responseCompression } from "./compression.ts";
import { envelopeBytes, openEnvelope, openEnvelopes } from "./envelope.ts";
import { type EnvelopedProtocol, type RpcMethod, serveCalls, type ServeRpc } from "./method.ts";
import { ResponseFrames } from "./response-frames.ts";

export type RpcStreamOptions = {
  readonly invoke: InvokeStream;
  /** Server streaming: the request has exactly one message. */
  readonly hasSingleRequest: boolean;
  readonly openStreams: OpenStreams;
};

export function createStream(
  rpc: RpcMethod,
  { invoke, hasSingleRequest, openStreams }: RpcStreamOptions,
  protocol: EnvelopedProtocol,
  codec: Codec,
): ServeRpc {
  const { failureOf, maxBytes } = rpc;
  const { end } = protocol;
  const contentType = `application/${protocol.name}+${codec.name}`;
  const hasTrailers = protocol.name === "grpc";

  const readSingle = async (request: GatewayRequest, compression: MessageCompression | undefined): Promise<Message> => {
    const body = await request.readBody(maxBytes + envelopeBytes);
    return withReservation(await openEnvelope(body, compression, maxBytes, request), request, codec.decode);
  };

  async function* readStream(
    request: GatewayRequest,
    context: CallContext,
    compression: MessageCompression | undefined,
  ) {
    try {
      for await (const bytes of openEnvelopes(request.streamBody(), compression, maxBytes, request)) {
        yield codec.decode(bytes);
      }
    } catch (error) {
      // Implementations expect a ConnectError.
      throw error instanceof RequestError ? failureOf(error, request, context) : error;
    }
  }

  const call: PerformCall = async ({ request, context, deadline }) => {
    const compression = requestCompression(request.headers[protocol.encoding], protocol.acceptEncoding);
    const accepted = responseCompression(request.headers[protocol.acceptEncoding], compression);
    context.observeClient();
    const messages = hasSingleRequest
      ? iterableOfOne(await readSingle(request, compression))
      : readStream(request, context, compression);
    const trailers: GatewayResponse["headers"] = {};
    let unregister = (): void => {};
    const frames = new ResponseFrames(
      new CancellableIterator(await invoke(messages, context), deadline),
      codec,
      accepted,
      {
        formatEnd: (error) =>
          end(context, trailers, error === undefined ? undefined : failureOf(error, request, context)),
        onEnd(error) {
          unregister();
          context.finish(error);
        },
      },
    );
    unregister = openStreams.register((reason) => frames.close(reason));
    request.onAbort(() => void frames.return());
    // Implementations may set headers until the first message.
    await frames.start();
    const headers = setHeadersOf(context);
    headers["content-type"] = contentType;
    if (accepted !== undefined) {
      headers[protocol.encoding] = accepted.name;
    }
    return { status: 200, headers, body: frames, ...(hasTrailers && { trailers }) };
  };

  return serveCalls(rpc, protocol.name, codec.name, call, (failure, context) => {
    const trailers: GatewayResponse["headers"] = {};
    const body = end(context, trailers, failure);
    const headers = setHeadersOf(context);
    headers["content-type"] = contentType;
    return { status: 200, headers, body, ...(hasTrailers && { trailers }) };
  });
}
