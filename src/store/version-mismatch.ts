import { FlowgateError } from "../errors.ts";

export function versionMismatch(activeRev: string): FlowgateError {
  return new FlowgateError(
    "version_mismatch",
    `rev: the active revision is ${JSON.stringify(activeRev)}: read it, resolve the differences and deploy again`,
  );
}
