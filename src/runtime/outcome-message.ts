import type { DeploymentResult } from "./runtime.ts";

const maxChars = 500;

/**
 * Why flows don't run, or which nodes logged an error while they were started; undefined if neither applies. For the history,
 * which is kept: the errors that flows throw are left out, because they may contain secrets. The log has them.
 */
export function outcomeMessage({ message, failedNodes = [] }: DeploymentResult): string | undefined {
  if (message !== undefined) {
    return message
      .replace(/(it crashed): .*$/s, "$1; the log has the error")
      .replaceAll(/\p{Cc}+/gu, " ")
      .slice(0, maxChars)
      .toWellFormed();
  }
  return failedNodes.length === 0
    ? undefined
    : `nodes logged errors while they were started: ${failedNodes.join(", ")}`;
}
