import { FlowgateError } from "../errors.ts";
import { UnauthorizedSchema } from "../../gen/flowgate/v1/access_pb.ts";

/** No token came with a call that needs one. */
export function noToken(): FlowgateError {
  return unauthorized("no_token", "This needs an access token, in an Authorization header: Bearer <token>.", "");
}

/** No workload identity came with a call that needs one, to a service that issues no tokens. */
export function noIdentity(): FlowgateError {
  return unauthorized(
    "no_token",
    "This needs the identity of a workload that may do it: call with a SPIFFE ID that has a rule in the option identity.",
    "",
  );
}

/** A token came that is not good, or not where and how tokens are sent. */
export function invalidToken(
  message = "The access token is unknown, expired or revoked; issue another one.",
): FlowgateError {
  return unauthorized("invalid_token", message, `, error="invalid_token"`);
}

/** No token came, and who the workload is that calls can't be told for sure. `message` says why. */
export function invalidIdentity(message: string): FlowgateError {
  return unauthorized("invalid_identity", message, "");
}

/** The caller is known, by a token or as a workload, but may not do this. */
export function insufficientScope(permission: string, hasToken: boolean): FlowgateError {
  return unauthorized(
    "insufficient_scope",
    `${hasToken ? "The access token, or its user," : "The workload, by its rule in the option identity,"} lacks the permission ${permission}.`,
    `, error="insufficient_scope", scope="${permission}"`,
  );
}

/** The challenge is the one of RFC 6750, section 3. */
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
