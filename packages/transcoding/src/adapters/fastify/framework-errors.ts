import { createRegistry } from "@bufbuild/protobuf";
import type { FastifyError, FastifyReply, FastifyRequest, FastifyServerOptions } from "fastify";
import { createErrorResponder } from "../../errors/responder.ts";
import { RequestError } from "../../http/request-error.ts";
import type { TranscoderOptions } from "../../transcoder/options.ts";

/**
 * Makes Fastify's `frameworkErrors`, for what it refuses before any plugin sees it, such as a path with a bad
 * percent-escape: so errors of routing have one shape too. `errors` as of the plugin.
 */
export function createFrameworkErrorHandler({ errors = "plain" }: Pick<TranscoderOptions, "errors"> = {}): NonNullable<
  FastifyServerOptions["frameworkErrors"]
> {
  const answers = createErrorResponder(errors, createRegistry());
  return (error: FastifyError, _request: FastifyRequest, reply: FastifyReply): void => {
    const { statusCode: status = 500 } = error;
    const {
      status: answered,
      headers,
      body,
    } = status >= 400 && status < 500
      ? answers.ofFault(
          new RequestError(status, "invalid_argument", messages[error.code] ?? "the request is malformed"),
        )
      : answers.ofError(error);
    const text = typeof body === "string" ? body : "";
    reply.hijack();
    reply.raw.writeHead(answered, { ...headers, "content-length": Buffer.byteLength(text) });
    reply.raw.end(text);
  };
}

/** By Fastify's codes, whose own messages repeat the target. */
const messages: Readonly<Record<string, string>> = {
  FST_ERR_BAD_URL: "the path is badly encoded: percent-escapes of UTF-8 were expected",
  FST_ERR_MAX_PARAM_LENGTH: "a part of the path is too long",
};
