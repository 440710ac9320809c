import { FlowgateError } from "../errors.ts";

/** The error of a commit whose parent is not the active revision. */
export function versionMismatch(activeRev: string): FlowgateError {
  return new FlowgateError(
    "version_mismatch",
    `rev: the active revision is ${JSON.stringify(activeRev)}: read it, resolve the differences and deploy again`,
  );
}
