import type { GatewayResponse } from "@flowgate/gateway";
import type { FastifyReply } from "fastify";

/** Sends an error as the other endpoints do. */
export function sendError(reply: FastifyReply, { status, headers, body }: GatewayResponse): FastifyReply {
  return reply.status(status).headers(headers).send(body);
}
