import { createRegistry } from "@bufbuild/protobuf";
import type { FastifyError } from "fastify";
import { createErrorResponder } from "../../errors/responder.ts";
import { createErrorReporter } from "../../errors/report-error.ts";
import { RequestError } from "../../http/request-error.ts";
import type { GatewayResponse } from "../../http/response.ts";
import { checkOptions } from "../../options/check-options.ts";
import { gatewayOptionChecks } from "../../options/option-checks.ts";
import type { GatewayOptions } from "../../options/options.ts";
import type { NodeResponse } from "../node/request.ts";

/** The parts of a Fastify reply that the handler needs. The types for HTTP/1.1 and HTTP/2 differ. */
type RawReply = { hijack(): unknown; readonly raw: NodeResponse };

/**
 * Creates a `frameworkErrors` option for Fastify, so that requests which Fastify rejects before routing, such as a path
 * with an invalid percent-escape, get errors in the same format. Pass the same options as to the plugin.
 */
export function createFrameworkErrorHandler(
  options: Pick<GatewayOptions, "errors" | "onError"> = {},
): (error: FastifyError, request: unknown, reply: RawReply) => void {
  const { errors, onError } = gatewayOptionChecks;
  checkOptions(options, { errors, onError });
  const reportError = createErrorReporter(options.onError);
  const responder = createErrorResponder({
    errors: options.errors ?? "plain",
    registry: createRegistry(),
    reportError,
  });
  const respond = (error: FastifyError): GatewayResponse => {
    const { statusCode: status = 500 } = error;
    if (status >= 400 && status < 500) {
      const message = messages[error.code] ?? "the request is malformed";
      return responder.respondToRequestError(new RequestError(status, "invalid_argument", message));
    }
    reportError(error);
    return responder.respondToError(error);
  };
  return (error, _request, reply) => {
    const response = respond(error);
    const body = typeof response.body === "string" ? response.body : "";
    reply.hijack();
    reply.raw.writeHead(response.status, { ...response.headers, "content-length": Buffer.byteLength(body) });
    reply.raw.end(body);
  };
}

/** Messages by Fastify's error codes. Fastify's own messages contain the request target. */
const messages: Readonly<Record<string, string>> = {
  FST_ERR_BAD_URL: "the path is not valid percent-encoded UTF-8",
  FST_ERR_MAX_PARAM_LENGTH: "a part of the path is too long",
};
