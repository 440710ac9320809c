/** The reasons of errors that a caller can act on. docs/api.md describes them. */
export type Reason =
  | "invalid_json"
  | "invalid_flows"
  | "invalid_credentials"
  | "invalid_deployment_type"
  | "version_mismatch"
  | "precondition_failed"
  | "merge_conflict"
  | "idempotency_key_reused"
  | "nothing_to_undo"
  // Proposals.
  | "approval_required"
  | "own_proposal"
  | "foreign_proposal"
  | "proposal_stale"
  | "proposal_closed"
  | "proposal_changed"
  | "nothing_proposed"
  | "no_runtime"
  | "flows_stopped"
  | "flows_not_running"
  | "flows_unresponsive"
  | "call_failed"
  | "node_disabled"
  | "no_input"
  | "payload_too_large"
  // Modules.
  | "module_refused"
  | "module_failed"
  | "module_in_use"
  | "modules_busy"
  | "registry_unavailable"
  // Access to a call.
  | "no_token"
  | "invalid_token"
  | "invalid_identity"
  | "insufficient_scope"
  // Issuing and revoking tokens.
  | "invalid_request"
  | "invalid_client"
  | "invalid_grant"
  | "unsupported_grant_type"
  | "invalid_scope"
  | "temporarily_unavailable"
  | "auth_disabled"
  | "user_required"
  // Any call.
  | "invalid_argument"
  | "not_found"
  | "limit_exceeded"
  | "unavailable"
  | "overloaded"
  | "misdirected_request"
  | "foreign_origin"
  | "internal";

/**
 * Structured information for clients, a message with its descriptor: an error detail over RPC; over HTTP, it can be the response body.
 */
export type ErrorDetail = {
  readonly desc: { readonly kind: "message"; readonly typeName: string };
  readonly value: object;
};

export type FlowgateErrorOptions = {
  readonly details?: readonly ErrorDetail[];
  readonly retryAfterMs?: number | undefined;
  readonly challenge?: string | undefined;
};

/**
 * The only error class for failures that a caller can act on. The message describes what was wrong, where, and what to
 * do about it. Independent of protocols: the server maps reasons to codes.
 */
export class FlowgateError extends Error {
  readonly reason: Reason;
  readonly details: readonly ErrorDetail[];
  /** When it makes sense to try again, after this time; undefined: it is not known. */
  readonly retryAfterMs: number | undefined;
  /** How a caller can authenticate (RFC 9110, section 11.6.1); undefined: that is not what was wrong. */
  readonly challenge: string | undefined;

  constructor(reason: Reason, message: string, { details = [], retryAfterMs, challenge }: FlowgateErrorOptions = {}) {
    super(message);
    this.name = "FlowgateError";
    this.reason = reason;
    this.details = details;
    this.retryAfterMs = retryAfterMs;
    this.challenge = challenge;
  }
}
