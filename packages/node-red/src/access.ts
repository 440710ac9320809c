import type { FastifyReply } from "fastify";
import type { Access } from "./host.ts";

export const publicRoute: { readonly access: Access } = { access: { kind: "public" } };

export const authenticated: { readonly access: Access } = { access: { kind: "authenticated" } };

/** The `config` of a route for callers with a permission. */
export function requires(permission: string): { readonly access: Access } {
  return { access: { kind: "permission", permission } };
}

/** Aborted when the client has disconnected, and when the response was sent. */
export function signalOf({ raw }: FastifyReply): AbortSignal {
  const disconnected = new AbortController();
  raw.once("close", () => disconnected.abort());
  return disconnected.signal;
}
