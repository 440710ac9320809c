import { FlowgateError } from "../errors.ts";
import { UnauthorizedSchema } from "../../gen/flowgate/v1/access_pb.ts";

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

/** Has the challenge of RFC 6750, section 3. */
function unauthorized(
  reason: "no_token" | "invalid_token" | "invalid_identity" | "insufficient_scope",
  message: string,
  parameters: string,
): FlowgateError {
  const challenge = `Bearer realm="flowgate"${parameters}`;
  return new FlowgateError(reason, message, {
    details: [{ desc: UnauthorizedSchema, value: { challenge } }],
    headers: { "www-authenticate": challenge },
  });
}
