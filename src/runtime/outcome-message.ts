import type { DeploymentResult } from "./runtime.ts";

const maxChars = 500;

/**
 * Why flows don't run; undefined if they do. For the history, which is kept: the errors that flows throw are left out, because they
 * may contain secrets. The log has them.
 */
export function outcomeMessage({ message }: Pick<DeploymentResult, "message">): string | undefined {
  return message
    ?.replace(/(it crashed): .*$/s, "$1; the log has the error")
    .replaceAll(/\p{Cc}+/gu, " ")
    .slice(0, maxChars)
    .toWellFormed();
}
