import { create, type DescMessage, type Message } from "@bufbuild/protobuf";
import { Code, ConnectError } from "@connectrpc/connect";
import { ErrorInfoSchema } from "../../gen/google/rpc/error_details_pb.ts";
import { addHeaders, jsonAnswer, type Answer } from "./answer.ts";
import type { Fault } from "./fault.ts";
import { createHeaderWriter } from "./header.ts";
import { messageWriter } from "./json/write.ts";
import { enumSpelling, errorRule, fieldRule } from "./rules.ts";

/** The HTTP status of each code, as google/rpc/code.proto maps them. */
const statusOf: Readonly<Record<Code, number>> = {
  [Code.Canceled]: 499,
  [Code.Unknown]: 500,
  [Code.InvalidArgument]: 400,
  [Code.DeadlineExceeded]: 504,
  [Code.NotFound]: 404,
  [Code.AlreadyExists]: 409,
  [Code.PermissionDenied]: 403,
  [Code.ResourceExhausted]: 429,
  [Code.FailedPrecondition]: 400,
  [Code.Aborted]: 409,
  [Code.OutOfRange]: 400,
  [Code.Unimplemented]: 501,
  [Code.Internal]: 500,
  [Code.Unavailable]: 503,
  [Code.DataLoss]: 500,
  [Code.Unauthenticated]: 401,
};

/** Code.InvalidArgument -> "invalid_argument" */
const nameOf = (code: Code): string => (Code[code] ?? "Unknown").replaceAll(/(?<!^)([A-Z])/g, "_$1").toLowerCase();

/** `{code, message}`, the shape of every error that has no shape of its own. */
export function plainError(
  status: number,
  reason: string,
  message: string,
  headers: Record<string, string | string[]> = {},
): Answer {
  return jsonAnswer(status, headers, { code: reason, message });
}

/**
 * The answer for whatever ended a call. A ConnectError with a detail that has the `error` option is
 * answered in that shape; any other as `{code, message}`, its code the reason of a
 * google.rpc.ErrorInfo detail, else the name of its RPC code. What is no ConnectError tells nothing.
 */
export function errorAnswer(error: unknown): Answer {
  if (!(error instanceof ConnectError)) {
    return plainError(500, "internal", "internal error");
  }
  const headers: Record<string, string | string[]> = {};
  addHeaders(headers, error.metadata);
  for (const detail of error.details) {
    if ("desc" in detail) {
      const shape = errorShape(detail.desc);
      if (shape !== undefined) {
        return shape.answer(create(detail.desc, detail.value), statusOf[error.code], headers);
      }
    }
  }
  const reason = error.findDetails(ErrorInfoSchema)[0]?.reason ?? nameOf(error.code);
  return plainError(statusOf[error.code], reason, error.rawMessage, headers);
}

/** How the faults of an operation's requests are answered. */
export type FaultShape = {
  /** The reason of a fault that has none of its own. */
  readonly invalid: string;
  /** A message with the `error` option whose shape every fault takes; undefined: `{code, message}`. */
  readonly message: DescMessage | undefined;
};

/** Compiles the answer for faults; throws at start-up where the shape's message can't say the reason. */
export function createFaultAnswer({ invalid, message }: FaultShape): (fault: Fault) => Answer {
  if (message === undefined) {
    return (fault) => plainError(fault.status, fault.reason ?? invalid, fault.message, { ...fault.headers });
  }
  const shape = errorShape(message);
  const rule = errorRule(message);
  if (shape === undefined || rule === undefined) {
    throw new Error(`${message.typeName} has no (transcoding.v1.error) option`);
  }
  const reasonField = message.fields.find((field) => field.name === rule.reason);
  const textField = message.fields.find((field) => field.name === rule.message);
  const reason = reasonField?.fieldKind === "enum" ? enumSpelling(reasonField.enum).numberOf.get(invalid) : invalid;
  if (reasonField === undefined || reason === undefined) {
    throw new Error(`${message.typeName} can't say the reason "${invalid}"`);
  }
  return (fault) => {
    const value: Message & Record<string, unknown> = create(message);
    value[reasonField.localName] = reason;
    if (textField !== undefined) {
      value[textField.localName] = fault.echoes ? "the request is malformed" : fault.message;
    }
    const answer = shape.answer(value, fault.status, { ...fault.headers });
    // The fault knows better than the reason: 413 and 415 stay what they are.
    return { ...answer, status: fault.status };
  };
}

type ErrorShape = {
  answer(message: Message, codeStatus: number, headers: Record<string, string | string[]>): Answer;
};

const shapes = new WeakMap<DescMessage, ErrorShape | false>();

function errorShape(desc: DescMessage): ErrorShape | undefined {
  let shape = shapes.get(desc);
  if (shape === undefined) {
    shape = compileShape(desc) ?? false;
    shapes.set(desc, shape);
  }
  return shape === false ? undefined : shape;
}

function compileShape(desc: DescMessage): ErrorShape | undefined {
  const rule = errorRule(desc);
  if (rule === undefined) {
    return undefined;
  }
  const hasBody = desc.fields.some((field) => fieldRule(field).header === "");
  const setHeaders = createHeaderWriter(desc);
  const reasonField = desc.fields.find((field) => field.name === rule.reason);
  const reasonRules = reasonField?.fieldKind === "enum" ? enumSpelling(reasonField.enum).rules : undefined;
  const write = messageWriter(desc);
  return {
    answer(message, codeStatus, headers) {
      const fields = message as Message & Record<string, unknown>;
      setHeaders(message, headers);
      const byReason = reasonField && reasonRules?.get(fields[reasonField.localName] as number)?.status;
      const status = rule.status || byReason || codeStatus;
      return hasBody ? jsonAnswer(status, headers, write(message)) : { status, headers, body: undefined };
    },
  };
}
