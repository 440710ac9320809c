import type { HandlerContext } from "@connectrpc/connect";
import type { Origin } from "../store/store.ts";
import { peerKey, principalKey } from "./principal.ts";

/** Returns the origin of a call that has passed the gate. */
export function originOf({ values, protocolName }: Pick<HandlerContext, "values" | "protocolName">): Origin {
  const { address, requestId } = values.get(peerKey);
  return {
    by: values.get(principalKey).username,
    address,
    // The transcoder's name of its protocol.
    protocol: protocolName === "http" ? "rest" : protocolName,
    requestId,
  };
}
