import type { DescMessage, DescMethod } from "@bufbuild/protobuf";
import { Code, ConnectError } from "@connectrpc/connect";
import { MethodOptions_IdempotencyLevel } from "@bufbuild/protobuf/wkt";
import { addVary, type GatewayResponse } from "../../http/response.ts";
import type { Route } from "../../routing/route.ts";
import { createCallRunner, type Invocation, type RunCall } from "../../call/runner.ts";
import type { Compressor } from "./response/compressor.ts";
import { readTimeout } from "../../call/deadline.ts";
import { codeOfStatus } from "../../errors/codes.ts";
import { createErrorMapper } from "../../errors/map-error.ts";
import { createRequestErrorResponder, type ErrorResponder } from "../../errors/responder.ts";
import { RequestError } from "../../http/request-error.ts";
import type { CompleteGatewayOptions } from "../../options/options.ts";
import type { GatewayRequest } from "../../http/request.ts";
import { formatTemplate } from "../../routing/template.ts";
import { methodRule } from "../../schema/rules.ts";

/** The stages that all calls of an operation share: gate, deadline, error responses, fixed headers, compression. */
export type CallPipeline = {
  readonly run: RunCall;
  /** The response to an error, without fixed headers and compression. */
  errorResponse(error: unknown, invocation: Pick<Invocation, "request" | "context">): GatewayResponse;
};

export type CallPipelineOptions = Pick<
  CompleteGatewayOptions,
  "requestGate" | "mapError" | "reportError" | "maxTimeoutMs"
> & {
  readonly errorResponder: ErrorResponder;
  /** Undefined if compression is off. */
  readonly compressor: Compressor | undefined;
  /** Finds a message by its full name, for options that refer to one. */
  readonly findMessage: (typeName: string) => DescMessage | undefined;
};

export function createCallPipeline(method: DescMethod, route: Route, options: CallPipelineOptions): CallPipeline {
  const { requestGate, mapError, reportError, maxTimeoutMs, errorResponder, compressor, findMessage } = options;
  const rule = methodRule(route.method);
  const respondToRequestError = createRequestErrorResponder(
    {
      defaultReason: rule.invalid === "" ? "invalid_argument" : rule.invalid,
      message: rule.requestError === "" ? undefined : requireMessage(rule.requestError, findMessage),
    },
    errorResponder,
  );
  const fixedHeaders = rule.headers.map(({ name, value }) => [name.toLowerCase(), value] as const);
  const variantHeader =
    method.idempotency === MethodOptions_IdempotencyLevel.NO_SIDE_EFFECTS ? rule.variants?.header : undefined;

  const mapped = createErrorMapper(mapError, reportError);

  const errorResponse: CallPipeline["errorResponse"] = (error, { request, context }) => {
    if (error instanceof RequestError) {
      request.fail?.(codeOfStatus(error.status));
      return respondToRequestError(error);
    }
    const failure = mapped(error, context);
    request.fail?.(failure instanceof ConnectError ? failure.code : Code.Internal);
    return errorResponder.respondToError(failure);
  };

  const complete = (request: GatewayRequest, response: GatewayResponse): GatewayResponse | Promise<GatewayResponse> => {
    for (const [name, value] of fixedHeaders) {
      response.headers[name] ??= value;
    }
    if (variantHeader !== undefined) {
      addVary(response.headers, variantHeader);
    }
    return compressor === undefined ? response : compressor.compress(response, request.headers["accept-encoding"]);
  };

  return {
    errorResponse,
    run: createCallRunner(method, {
      name: "http",
      httpRoute: formatTemplate(route.template),
      format: "json",
      requestGate,
      readTimeout: (headers) => readTimeout(headers, maxTimeoutMs),
      complete,
      errorResponse,
    }),
  };
}

function requireMessage(name: string, find: (typeName: string) => DescMessage | undefined): DescMessage {
  const message = find(name);
  if (message === undefined) {
    throw new Error(`no message ${name} in the files of the registered services`);
  }
  return message;
}
