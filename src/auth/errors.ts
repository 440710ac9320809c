import { UnauthorizedSchema } from "../../gen/flowgate/v1/access_pb.ts";
import { TokenErrorReason, TokenErrorSchema } from "../../gen/flowgate/v1/auth_pb.ts";
import { FlowgateError, type Reason } from "@flowgate/flows/errors";

/** A call that requires a token has none. */
export function noToken(): FlowgateError {
  return unauthorized("no_token", "This needs an access token, in an Authorization header: Bearer <token>.", "");
}

/** A call that requires a workload identity has none, and the service issues no tokens. */
export function noIdentity(): FlowgateError {
  return unauthorized(
    "no_token",
    "This requires a workload identity with permission: call with a SPIFFE ID that has a rule in the option identity.",
    "",
  );
}

/** The token of a call is invalid, or not sent as a bearer token in the Authorization header. */
export function invalidToken(
  message = "The access token is unknown, expired or revoked; issue another one.",
): FlowgateError {
  return unauthorized("invalid_token", message, `, error="invalid_token"`);
}

/** The session of a browser is not valid. */
export function endedSession(): FlowgateError {
  return invalidToken("The session has ended: sign in again at /sign-in.");
}

/** A call without a token has an invalid workload identity. `message` describes why. */
export function invalidIdentity(message: string): FlowgateError {
  return unauthorized("invalid_identity", message, "");
}

/** The caller is authenticated, by a token or as a workload, but lacks the permission. */
export function insufficientScope(permission: string, hasToken: boolean): FlowgateError {
  return unauthorized(
    "insufficient_scope",
    `${hasToken ? "The access token, or its user," : "The workload, according to its rule in the option identity,"} lacks the permission ${permission}.`,
    `, error="insufficient_scope", scope="${permission}"`,
  );
}

/** The user has signed in but has no permissions, or none for `access`. */
export function signedInWithout(access: string, username: string): FlowgateError {
  return unauthorized(
    "insufficient_scope",
    `You are signed in as ${username}, but have no ${access}. Ask an administrator of this service for it.`,
    `, error="insufficient_scope"`,
  );
}

/** The caller wrote the proposal that this call would decide. */
export function ownProposal(verb: "approve" | "reject"): FlowgateError {
  return new FlowgateError(
    "own_proposal",
    `The author of a proposal can't ${verb} it, even with another token: ask another user${verb === "reject" ? ", or withdraw it" : ""}.`,
  );
}

/** The caller is not known by a name. */
export function identityRequired(message: string): FlowgateError {
  return new FlowgateError("user_required", message);
}

/** The caller may change some tabs only. `parts` names what else the deployment would change. */
export function insufficientTabs(parts: string, permission: string): FlowgateError {
  const message = `The deployment would change ${parts}, on which the access token, or its user, lacks the permission ${permission}.`;
  // RFC 6750, section 3, permits these characters.
  const description = message.replaceAll(/["\\]/g, "'").replaceAll(/[^\x20-\x7e]/g, "?");
  return unauthorized(
    "insufficient_scope",
    message,
    `, error="insufficient_scope", error_description="${description}", scope="${permission}"`,
  );
}

/** Has the challenge of RFC 6750, section 3. */
function unauthorized(
  reason: "no_token" | "invalid_token" | "invalid_identity" | "insufficient_scope",
  message: string,
  parameters: string,
): FlowgateError {
  const challenge = `Bearer realm="flowgate"${parameters}`;
  return new FlowgateError(reason, message, {
    details: [{ desc: UnauthorizedSchema, value: { challenge } }],
    challenge,
  });
}

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
    retryAfterMs: retryAfterSeconds === undefined ? undefined : retryAfterSeconds * 1000,
    challenge,
  });
}
