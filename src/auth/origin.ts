import type { HandlerContext } from "@connectrpc/connect";
import type { Caller } from "../base/shared-threads.ts";
import type { Origin } from "../store/origin.ts";
import { clientKeyOf } from "./client-key.ts";
import { peerKey, principalKey } from "./principal.ts";

/** Returns the origin of a call. `principal` is the one that the gate has set, or refused. */
export function originOf(
  { values, protocolName }: Pick<HandlerContext, "values" | "protocolName">,
  principal = values.get(principalKey),
): Origin {
  const { address, requestId } = values.get(peerKey);
  return {
    by: principal.username,
    token: principal.token,
    address,
    // The transcoder's name of its protocol.
    protocol: protocolName === "http" ? "rest" : protocolName,
    requestId,
  };
}

/** On whose behalf a call uses threads that callers share: those without an identity take turns by their address. */
export function callerOf({ values, signal }: Pick<HandlerContext, "values" | "signal">): Caller {
  const { username } = values.get(principalKey);
  const source = username === undefined ? `client ${clientKeyOf(values.get(peerKey).address)}` : `user ${username}`;
  return { source, signal };
}
