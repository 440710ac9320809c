import { encodeLatin1 } from "#platform/bytes";
import type { GatewayResponse } from "../http/response.ts";
import { addGrpcTrailers, grpc } from "./grpc.ts";
import { envelope, trailersFlag } from "./rpc/envelope.ts";
import type { EnvelopedProtocol } from "./rpc/method.ts";

/** gRPC-Web (https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-WEB.md): gRPC with its trailers in the last envelope. */
export const grpcWeb: EnvelopedProtocol = {
  ...grpc,
  name: "grpc-web",
  end(context, trailers, error) {
    addGrpcTrailers(context, trailers, error);
    return trailersFrame(trailers);
  },
};

/** The last frame of a gRPC-Web response. */
function trailersFrame(trailers: GatewayResponse["headers"]): Uint8Array {
  let text = "";
  for (const name in trailers) {
    for (const value of [trailers[name] ?? []].flat()) {
      text += `${name}: ${value}\r\n`;
    }
  }
  return envelope(trailersFlag, encodeLatin1(text));
}
