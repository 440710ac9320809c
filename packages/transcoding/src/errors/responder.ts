import { create, type DescMessage, type Message, type Registry } from "@bufbuild/protobuf";
import { Code, ConnectError } from "@connectrpc/connect";
import { ErrorInfoSchema } from "../../gen/google/rpc/error_details_pb.ts";
import { addHeaders, jsonResponse, type TranscodingResponse } from "../http/response.ts";
import { codeOfStatus, nameOfCode, statusOfCode } from "./codes.ts";
import { createDetailsWriter } from "./details.ts";
import { createErrorFormatter, type ErrorFormat } from "./format.ts";
import type { RequestError } from "../http/request-error.ts";
import { createHeaderWriter } from "../response/header.ts";
import { messageWriter } from "../json/write.ts";
import { enumNames, errorRule, fieldRule } from "../schema/rules.ts";

/** Makes the answers of all that fails, in the one shape that the option `errors` names. Neither ever throws. */
export type ErrorResponder = {
  /**
   * Of whatever ended a call. A ConnectError with a detail that has the `error` option is answered in
   * that shape. What is no ConnectError tells nothing.
   */
  ofError(error: unknown): TranscodingResponse;
  /** Of a request that led to no call; `invalid` is the reason of a fault that has none of its own. */
  ofFault(fault: RequestError, invalid?: string): TranscodingResponse;
  /** The answer that a message with the `error` option is; undefined for one without. */
  shapeOf(desc: DescMessage): DetailShape | undefined;
};

/** Throws at start-up for a format that there is not. `registry` holds the types of details, and of any Any in them. */
export function createErrorResponder(format: ErrorFormat, registry: Registry): ErrorResponder {
  const answer = createErrorFormatter(format);
  const writeDetails = createDetailsWriter(registry);
  const shapeOf = createShapes(registry);
  const ofConnectError = (error: ConnectError): TranscodingResponse => {
    const headers: Record<string, string | string[]> = {};
    addHeaders(headers, error.metadata);
    for (const detail of error.details) {
      if ("desc" in detail) {
        const shape = shapeOf(detail.desc);
        if (shape !== undefined) {
          return shape.answer(create(detail.desc, detail.value), statusOfCode(error.code), headers);
        }
      }
    }
    return answer({
      status: statusOfCode(error.code),
      code: Code[error.code] === undefined ? Code.Unknown : error.code,
      reason: error.findDetails(ErrorInfoSchema)[0]?.reason ?? nameOfCode(error.code),
      message: error.rawMessage,
      headers,
      details: () => writeDetails(error.details),
      cause: error,
    });
  };
  const ofBug = (cause: unknown): TranscodingResponse =>
    answer({
      status: 500,
      code: Code.Internal,
      reason: "internal",
      message: "internal error",
      headers: {},
      details: () => [],
      cause,
    });
  return {
    shapeOf,
    ofError(error) {
      if (!(error instanceof ConnectError)) {
        return ofBug(error);
      }
      try {
        return ofConnectError(error);
      } catch (cause) {
        // A detail that is the answer, but has no JSON: a Timestamp beyond the year 9999, an Any of an unknown type.
        return ofBug(cause);
      }
    },
    ofFault(fault, invalid = "invalid_argument") {
      return answer({
        status: fault.status,
        code: codeOfStatus(fault.status),
        reason: fault.reason ?? invalid,
        message: fault.message,
        headers: fault.headers,
        details: () => [],
        cause: fault,
      });
    },
  };
}

/** How the faults of an operation's requests are answered. */
export type RequestErrorShape = {
  /** The reason of a fault that has none of its own. */
  readonly invalid: string;
  /** A message with the `error` option whose shape every fault takes; undefined: that of all errors. */
  readonly message: DescMessage | undefined;
};

/** Compiles the answer for faults; throws at start-up where the shape's message can't say the reason. */
export function createRequestErrorResponder(
  { invalid, message }: RequestErrorShape,
  errors: ErrorResponder,
): (fault: RequestError) => TranscodingResponse {
  if (message === undefined) {
    return (fault) => errors.ofFault(fault, invalid);
  }
  const shape = errors.shapeOf(message);
  const rule = errorRule(message);
  if (shape === undefined || rule === undefined) {
    throw new Error(`${message.typeName} has no (transcoding.v1.error) option`);
  }
  const reasonField = message.fields.find((field) => field.name === rule.reason);
  const textField = message.fields.find((field) => field.name === rule.message);
  const reason = reasonField?.fieldKind === "enum" ? enumNames(reasonField.enum).numberOf.get(invalid) : invalid;
  if (reasonField === undefined || reason === undefined) {
    throw new Error(`${message.typeName} can't say the reason "${invalid}"`);
  }
  return (fault) => {
    const value: Message & Record<string, unknown> = create(message);
    value[reasonField.localName] = reason;
    if (textField !== undefined) {
      value[textField.localName] = fault.repeatsInput ? "the request is malformed" : fault.message;
    }
    const answer = shape.answer(value, fault.status, { ...fault.headers });
    // The fault knows better than the reason: 413 and 415 stay what they are.
    return { ...answer, status: fault.status };
  };
}

/** Answers a message with the `error` option: the detail is the answer. */
type DetailShape = {
  answer(message: Message, codeStatus: number, headers: Record<string, string | string[]>): TranscodingResponse;
};

/** Compiles each shape when it is first asked for. */
function createShapes(registry: Registry): ErrorResponder["shapeOf"] {
  const shapes = new WeakMap<DescMessage, DetailShape | false>();
  return (desc) => {
    let shape = shapes.get(desc);
    if (shape === undefined) {
      shape = compileShape(desc, registry) ?? false;
      shapes.set(desc, shape);
    }
    return shape === false ? undefined : shape;
  };
}

function compileShape(desc: DescMessage, registry: Registry): DetailShape | undefined {
  const rule = errorRule(desc);
  if (rule === undefined) {
    return undefined;
  }
  const hasBody = desc.fields.some((field) => fieldRule(field).header === "");
  const setHeaders = createHeaderWriter(desc);
  const reasonField = desc.fields.find((field) => field.name === rule.reason);
  const reasonRules = reasonField?.fieldKind === "enum" ? enumNames(reasonField.enum).rules : undefined;
  const write = messageWriter(desc, registry);
  return {
    answer(message, codeStatus, headers) {
      const fields = message as Message & Record<string, unknown>;
      setHeaders(message, headers);
      const byReason = reasonField && reasonRules?.get(fields[reasonField.localName] as number)?.status;
      const status = rule.status || byReason || codeStatus;
      return hasBody ? jsonResponse(status, headers, write(message)) : { status, headers, body: undefined };
    },
  };
}
