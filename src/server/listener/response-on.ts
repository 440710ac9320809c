import type { ServerResponse } from "node:http";
import type { Socket } from "node:net";

/**
 * The response that an HTTP/1 connection is busy with. Node keeps it here and consults it for the same
 * purposes, but has no public name for it.
 */
export function responseOn(socket: Socket): ServerResponse | undefined {
  const { _httpMessage: response } = socket as Socket & { _httpMessage?: ServerResponse | null };
  return response ?? undefined;
}
