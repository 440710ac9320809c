import { Code, ConnectError } from "@connectrpc/connect";
import type { DescMessage, MessageInitShape } from "@bufbuild/protobuf";
import { ErrorInfoSchema } from "../gen/google/rpc/error_details_pb.ts";

/** Every failure that a caller can act on, and its code over RPC. The transcoder alone maps codes to HTTP. */
const codes = {
  invalid_json: Code.InvalidArgument,
  invalid_flows: Code.InvalidArgument,
  invalid_credentials: Code.InvalidArgument,
  invalid_deployment_type: Code.InvalidArgument,
  version_mismatch: Code.Aborted,
  payload_too_large: Code.ResourceExhausted,

  no_token: Code.Unauthenticated,
  invalid_token: Code.Unauthenticated,
  invalid_identity: Code.Unauthenticated,
  insufficient_scope: Code.PermissionDenied,

  invalid_request: Code.InvalidArgument,
  invalid_client: Code.Unauthenticated,
  invalid_grant: Code.Unauthenticated,
  unsupported_grant_type: Code.InvalidArgument,
  invalid_scope: Code.InvalidArgument,
  temporarily_unavailable: Code.ResourceExhausted,
  auth_disabled: Code.FailedPrecondition,

  not_found: Code.NotFound,
  limit_exceeded: Code.ResourceExhausted,
  unavailable: Code.Unavailable,
  overloaded: Code.Unavailable,
  misdirected_request: Code.PermissionDenied,
  foreign_origin: Code.PermissionDenied,
  internal: Code.Internal,
} as const satisfies Record<string, Code>;

export type Reason = keyof typeof codes;

/** A message that tells RPC clients, and the transcoder, more than the reason. */
export type ErrorDetail<Desc extends DescMessage = DescMessage> = { desc: Desc; value: MessageInitShape<Desc> };

/**
 * The one error for what a caller can act on. `reason` travels as a google.rpc.ErrorInfo detail over
 * RPC, and as `code` over HTTP. The message says what was wrong, where, and what to do about it.
 */
export class FlowgateError extends ConnectError {
  readonly reason: Reason;

  constructor(
    reason: Reason,
    message: string,
    extra: { details?: ErrorDetail[]; headers?: Record<string, string> } = {},
  ) {
    const info: ErrorDetail<typeof ErrorInfoSchema> = { desc: ErrorInfoSchema, value: { reason, domain: "flowgate" } };
    super(message, codes[reason], extra.headers, [info, ...(extra.details ?? [])]);
    this.reason = reason;
  }

  // ConnectError recognises its instances by their name and direct prototype, so the name stays, and this
  // class has to know its own.
  static override [Symbol.hasInstance](value: unknown): boolean {
    return value instanceof Error && Object.getPrototypeOf(value) === FlowgateError.prototype;
  }
}
