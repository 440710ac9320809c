import { FlowgateError } from "../errors.ts";

/** The error of a commit whose parent is not the active revision. */
export function versionMismatch(activeRev: string): FlowgateError {
  return new FlowgateError("version_mismatch", `rev: ${describeMismatch(activeRev)}`);
}

export function describeMismatch(activeRev: string): string {
  return `the active revision is ${JSON.stringify(activeRev)}: read it, resolve the differences and deploy again`;
}

/** The error of a revision that is to be pinned although so many others are. */
export function tooManyPinned(maxPinned: number): FlowgateError {
  return new FlowgateError(
    "limit_exceeded",
    `pinned: ${maxPinned} revisions are pinned, and history.maxRevisions permits no more: unpin one of them, or raise that option`,
  );
}

/** The error of a commit that may have been made. */
export function commitInDoubt(): FlowgateError {
  return new FlowgateError(
    "unavailable",
    "the database failed during the commit, whose outcome is unknown: before you try again, read the active revision, or " +
      "whatever the request changes; or send the deployment again with the same Idempotency-Key",
    { headers: { "retry-after": "1" } },
  );
}

/** The error of a commit whose idempotency key was used by an earlier one. */
export class RepeatedRequest extends Error {
  /** The revision that the earlier request made. */
  readonly rev: string;
  readonly fingerprint: Uint8Array;

  constructor(rev: string, fingerprint: Uint8Array) {
    super("the idempotency key was used before");
    this.name = "RepeatedRequest";
    this.rev = rev;
    this.fingerprint = fingerprint;
  }
}
