import {
  create,
  type DescMessage,
  type Message,
  type Registry,
  createRegistry,
  fromBinary,
  toBinary,
  type JsonValue,
} from "@bufbuild/protobuf";
import { Code, ConnectError } from "@connectrpc/connect";
import { ErrorInfoSchema, file_google_rpc_error_details } from "../../gen/google/rpc/error_details_pb.ts";
import { addHeaders, jsonResponse, type GatewayResponse } from "../http/response.ts";
import { codeOfStatus, nameOfCode, statusOfCode } from "./codes.ts";
import { createErrorFormatter, type ErrorFormat } from "./format.ts";
import type { ReportError } from "./report-error.ts";
import type { RequestError } from "../http/request-error.ts";
import { createHeaderWriter } from "../json/header-writer.ts";
import { canonicalJson, type CompleteJsonOptions } from "../json/json-options.ts";
import { messageWriter } from "../json/write.ts";
import { enumNames, errorRule, fieldRule } from "../schema/rules.ts";
import { writeTyped } from "../json/any.ts";

/** Creates error responses in the format of the `errors` option. `respondToError` and `respondToRequestError` never throw. */
export type ErrorResponder = {
  /**
   * The response to an error of a call. The first detail of a ConnectError whose message has the `error` option becomes
   * the response; a value that is not a ConnectError becomes an internal error that reveals nothing of it.
   */
  respondToError(error: unknown): GatewayResponse;
  /** The response to a rejected request. `defaultReason` applies if the error has no reason. */
  respondToRequestError(error: RequestError, defaultReason?: string): GatewayResponse;
  /**
   * The responder for details of a message type; undefined if the message has no `error` option. Throws an Error if its options are
   * invalid; the responder throws if the detail can't be written as JSON.
   */
  detailResponderOf(desc: DescMessage): DetailResponder | undefined;
};

type ErrorResponderOptions = {
  readonly errors: ErrorFormat;
  /** The types of error details and of Any messages in them. */
  readonly registry: Registry;
  readonly jsonOptions?: CompleteJsonOptions;
  readonly reportError: ReportError;
};

export function createErrorResponder({
  errors,
  registry,
  jsonOptions = canonicalJson,
  reportError,
}: ErrorResponderOptions): ErrorResponder {
  const formatError = createErrorFormatter(errors, reportError);
  const writeDetails = createDetailsWriter(registry, jsonOptions);
  const detailResponderOf = createDetailResponders(registry, jsonOptions);
  const respondToConnectError = (error: ConnectError): GatewayResponse => {
    const headers: Record<string, string | string[]> = {};
    addHeaders(headers, error.metadata);
    for (const detail of error.details) {
      if ("desc" in detail) {
        const responder = detailResponderOf(detail.desc);
        if (responder !== undefined) {
          return responder.respond(create(detail.desc, detail.value), statusOfCode(error.code), headers);
        }
      }
    }
    return formatError({
      status: statusOfCode(error.code),
      code: Code[error.code] === undefined ? Code.Unknown : error.code,
      reason: error.findDetails(ErrorInfoSchema)[0]?.reason ?? nameOfCode(error.code),
      message: error.rawMessage,
      headers,
      details: () => writeDetails(error.details),
      cause: error,
    });
  };
  const respondToUnknown = (cause: unknown): GatewayResponse =>
    formatError({
      status: 500,
      code: Code.Internal,
      reason: "internal",
      message: "internal error",
      headers: {},
      details: () => [],
      cause,
    });
  return {
    detailResponderOf,
    respondToError(error) {
      if (!(error instanceof ConnectError)) {
        return respondToUnknown(error);
      }
      try {
        return respondToConnectError(error);
      } catch (cause) {
        // The detail can't be written as JSON: a Timestamp after the year 9999, an Any of an unknown type.
        reportError(cause);
        return respondToUnknown(cause);
      }
    },
    respondToRequestError(error, defaultReason = "invalid_argument") {
      return formatError({
        status: error.status,
        code: codeOfStatus(error.status),
        reason: error.reason ?? defaultReason,
        message: error.message,
        headers: error.headers,
        details: () => [],
        cause: error,
      });
    },
  };
}

export type RequestErrorOptions = {
  /** The reason of a RequestError that has none. */
  readonly defaultReason: string;
  /** A message with the `error` option to respond with; undefined for the format of the `errors` option. */
  readonly message: DescMessage | undefined;
};

/** Compiles the responses to request errors; throws an Error if the message can't represent the default reason. */
export function createRequestErrorResponder(
  { defaultReason, message }: RequestErrorOptions,
  errors: ErrorResponder,
): (error: RequestError) => GatewayResponse {
  if (message === undefined) {
    return (error) => errors.respondToRequestError(error, defaultReason);
  }
  const responder = errors.detailResponderOf(message);
  const rule = errorRule(message);
  if (responder === undefined || rule === undefined) {
    throw new Error(`${message.typeName} has no (flowgate.gateway.v1.error) option`);
  }
  const reasonField = message.fields.find((field) => field.name === rule.reason);
  const textField = message.fields.find((field) => field.name === rule.message);
  const reason =
    reasonField?.fieldKind === "enum" ? enumNames(reasonField.enum).numberOf.get(defaultReason) : defaultReason;
  if (reasonField === undefined || reason === undefined) {
    throw new Error(
      `${message.typeName} can't represent the reason "${defaultReason}": its (flowgate.gateway.v1.error).reason must name a string field, or an enum field with a value of this name`,
    );
  }
  return (error) => {
    const value: Message & Record<string, unknown> = create(message);
    value[reasonField.localName] = reason;
    if (textField !== undefined) {
      value[textField.localName] = error.repeatsInput ? "the request is malformed" : error.message;
    }
    const response = responder.respond(value, error.status, { ...error.headers });
    // The status of the error, such as 413 or 415, takes precedence over the reason's status.
    return { ...response, status: error.status };
  };
}

/** Responds with an error detail whose message has the `error` option. `codeStatus` is the status of the error's code. */
type DetailResponder = {
  respond(message: Message, codeStatus: number, headers: Record<string, string | string[]>): GatewayResponse;
};

function createDetailResponders(
  registry: Registry,
  jsonOptions: CompleteJsonOptions,
): ErrorResponder["detailResponderOf"] {
  const responders = new WeakMap<DescMessage, DetailResponder | false>();
  return (desc) => {
    let responder = responders.get(desc);
    if (responder === undefined) {
      responder = compileDetailResponder(desc, registry, jsonOptions) ?? false;
      responders.set(desc, responder);
    }
    return responder === false ? undefined : responder;
  };
}

function compileDetailResponder(
  desc: DescMessage,
  registry: Registry,
  jsonOptions: CompleteJsonOptions,
): DetailResponder | undefined {
  const rule = errorRule(desc);
  if (rule === undefined) {
    return undefined;
  }
  const hasBody = desc.fields.some((field) => fieldRule(field).header === "");
  const setHeaders = createHeaderWriter(desc);
  const reasonField = desc.fields.find((field) => field.name === rule.reason);
  const reasonRules = reasonField?.fieldKind === "enum" ? enumNames(reasonField.enum).rules : undefined;
  const write = messageWriter(desc, registry, "response", jsonOptions);
  return {
    respond(message, codeStatus, headers) {
      const fields = message as Message & Record<string, unknown>;
      setHeaders(message, headers);
      const byReason = reasonField && reasonRules?.get(fields[reasonField.localName] as number)?.status;
      const status = rule.status || byReason || codeStatus;
      return hasBody ? jsonResponse(status, headers, write(message)) : { status, headers, body: undefined };
    },
  };
}

/**
 * Compiles the writer of error details as JSON of google.protobuf.Any. A detail received from another service is
 * binary: it is written if its type is in the registry or in google.rpc, and omitted otherwise.
 */
function createDetailsWriter(
  known: Registry,
  jsonOptions: CompleteJsonOptions,
): (details: ConnectError["details"]) => JsonValue[] {
  const registry = createRegistry(known, file_google_rpc_error_details);
  // A detail is an object for error formats of the application, in which a number would be rounded.
  const exact = { ...jsonOptions, int64AsNumber: false };
  return (details) =>
    details.flatMap((detail) => {
      const desc = "desc" in detail ? detail.desc : registry.getMessage(detail.type);
      if (desc === undefined) {
        return [];
      }
      try {
        // Local details are encoded too, which rejects values that are not valid messages of their type.
        const bytes = "desc" in detail ? toBinary(desc, create(desc, detail.value)) : detail.value;
        const typeUrl = `type.googleapis.com/${desc.typeName}`;
        return [writeTyped(typeUrl, desc, fromBinary(desc, bytes), messageWriter(desc, registry, "response", exact))];
      } catch {
        // Invalid bytes, or a nested Any of an unknown type: omit the detail, but send the error.
        return [];
      }
    });
}
