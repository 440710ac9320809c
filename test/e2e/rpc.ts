import { type DescMethodUnary, type DescMessage, type MessageInitShape, type MessageShape } from "@bufbuild/protobuf";
import { type Code, ConnectError, type Transport } from "@connectrpc/connect";
import { createConnectTransport, createGrpcTransport, createGrpcWebTransport } from "@connectrpc/connect-node";
import { ErrorInfoSchema } from "@flowgate/gateway/gen/google/rpc/error_details_pb.js";

/** All protocols other than REST. */
export const rpcProtocols = {
  "Connect with JSON": (baseUrl) => createConnectTransport({ baseUrl, httpVersion: "1.1", useBinaryFormat: false }),
  Connect: (baseUrl) => createConnectTransport({ baseUrl, httpVersion: "1.1", useBinaryFormat: true }),
  "Connect over GET": (baseUrl) => createConnectTransport({ baseUrl, httpVersion: "1.1", useHttpGet: true }),
  gRPC: (baseUrl) => createGrpcTransport({ baseUrl }),
  "gRPC-Web": (baseUrl) => createGrpcWebTransport({ baseUrl, httpVersion: "1.1" }),
} as const satisfies Record<string, (baseUrl: string) => Transport>;

export type RpcProtocol = keyof typeof rpcProtocols;
export const rpcProtocolNames = Object.keys(rpcProtocols) as RpcProtocol[];

type Refused = {
  readonly code: Code;
  /** The reason of the google.rpc.ErrorInfo detail. */
  readonly reason: string | undefined;
  readonly message: string;
  readonly metadata: Headers;
};

export type Outcome<O extends DescMessage> = { readonly message: MessageShape<O> } | { readonly refused: Refused };

/** Makes one call, and returns its outcome. */
export async function call<I extends DescMessage, O extends DescMessage>(
  transport: Transport,
  method: DescMethodUnary<I, O>,
  input: MessageInitShape<I>,
  headers: Readonly<Record<string, string>> = {},
): Promise<Outcome<O>> {
  try {
    const { message } = await transport.unary(method, undefined, 60_000, headers, input, undefined);
    return { message };
  } catch (error) {
    return { refused: readRefusal(error) };
  }
}

function readRefusal(error: unknown): Refused {
  if (!(error instanceof ConnectError)) {
    throw error;
  }
  const { code, rawMessage: message, metadata } = error;
  return { code, reason: error.findDetails(ErrorInfoSchema)[0]?.reason, message, metadata };
}
