import type { ConnectError } from "@connectrpc/connect";
import { type GatewayResponse, type CallContext } from "@flowgate/gateway/server";
import { envelope, trailersFlag } from "./envelope.ts";
import { grpcStatus } from "../errors/grpc-status.ts";
import { setTrailersOf } from "./method.ts";

/** The trailers of a call: its status, and the trailers that its implementation has set. */
export function grpcTrailers(context: CallContext, error: ConnectError | undefined): GatewayResponse["headers"] {
  const trailers = setTrailersOf(context);
  if (error === undefined) {
    trailers["grpc-status"] = "0";
    return trailers;
  }
  return Object.assign(trailers, grpcStatus(error));
}

/** The last frame of a gRPC-Web response. */
export function trailersFrame(trailers: GatewayResponse["headers"]): Buffer {
  let text = "";
  for (const name in trailers) {
    for (const value of [trailers[name] ?? []].flat()) {
      text += `${name}: ${value}\r\n`;
    }
  }
  return envelope(trailersFlag, Buffer.from(text, "latin1"));
}
