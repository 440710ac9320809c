import type { HandlerContext } from "@connectrpc/connect";
import type { Origin } from "../store/origin.ts";
import { peerKey, principalKey } from "./principal.ts";

/** Returns the origin of a call. `principal` is the one that the gate has set, or refused. */
export function originOf(
  { values, protocolName }: Pick<HandlerContext, "values" | "protocolName">,
  principal = values.get(principalKey),
): Origin {
  const { address, requestId } = values.get(peerKey);
  return {
    by: principal.username,
    address,
    // The transcoder's name of its protocol.
    protocol: protocolName === "http" ? "rest" : protocolName,
    requestId,
  };
}
