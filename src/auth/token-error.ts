import { FlowgateError, type Reason } from "../errors.ts";
import { TokenErrorReason, TokenErrorSchema } from "../../gen/flowgate/v1/auth_pb.ts";

const errors = {
  auth_disabled: TokenErrorReason.INVALID_REQUEST,
  invalid_request: TokenErrorReason.INVALID_REQUEST,
  invalid_client: TokenErrorReason.INVALID_CLIENT,
  invalid_grant: TokenErrorReason.INVALID_GRANT,
  unsupported_grant_type: TokenErrorReason.UNSUPPORTED_GRANT_TYPE,
  invalid_scope: TokenErrorReason.INVALID_SCOPE,
  temporarily_unavailable: TokenErrorReason.TEMPORARILY_UNAVAILABLE,
} as const satisfies Partial<Record<Reason, TokenErrorReason>>;

/** An error of issuing or revoking a token (RFC 6749, section 5.2). The description must not repeat any input. */
export function tokenError(
  reason: keyof typeof errors,
  description: string,
  { retryAfterSeconds, challenge }: { readonly retryAfterSeconds?: number; readonly challenge?: string } = {},
): FlowgateError {
  return new FlowgateError(reason, description, {
    details: [
      {
        desc: TokenErrorSchema,
        value: { error: errors[reason], errorDescription: description, retryAfter: retryAfterSeconds },
      },
    ],
    headers: {
      ...(retryAfterSeconds !== undefined && { "retry-after": String(retryAfterSeconds) }),
      ...(challenge !== undefined && { "www-authenticate": challenge }),
    },
  });
}
