import { hasCode } from "@flowgate/base/error-code";
import { FlowgateError } from "@flowgate/flows/errors";
import { isModuleName, isVersionRange } from "@flowgate/base/module-names";
import type { NpmError } from "./npm.ts";

/** Codes of npm and Node.js for a registry that can't be reached, or does not answer. */
const networkCodes =
  /^(?:ECONN\w+|ENOTFOUND|EAI_AGAIN|E?TIMEDOUT|ETIMEDOUT|EHOSTUNREACH|ENETUNREACH|ERR_SOCKET_TIMEOUT|FETCH_ERROR|E5\d\d|E429|EPIPE)$/;
const certificateCodes = /CERT|SELF_SIGNED|UNABLE_TO/;

/** Where a module is what a request is about, that the registry does not have it is the same as that it is not there. */
export type AbsentReason = "not_found" | "module_failed";

const unchanged = "The modules remain as they were";
const noSpace = "there is no space left on the disk";

/** A failure of the disk in a step outside of npm; undefined: it is another failure. */
export function explainFullDisk(error: unknown, name: string): FlowgateError | undefined {
  return hasCode(error, "ENOSPC", "EDQUOT")
    ? new FlowgateError("module_failed", `${name}: ${noSpace}. ${unchanged}`)
    : undefined;
}

/**
 * Describes a failure of npm for callers, with neither paths and URLs of its output, nor credentials in them. `absent` is the reason if the
 * registry does not have the package of this name; one that it requires is always `module_failed`.
 */
export function explainNpmError(
  { code, output }: NpmError,
  name: string,
  { timeoutMs, sizeMb, absent }: { readonly timeoutMs: number; readonly sizeMb: number; readonly absent: AbsentReason },
): FlowgateError {
  if (code === "timeout") {
    return new FlowgateError(
      "registry_unavailable",
      `${name}: npm has not finished within ${timeoutMs} ms (modules.timeoutMs): the registry does not answer, or is too slow. ${unchanged}`,
    );
  }
  if (code === "aborted") {
    return new FlowgateError("unavailable", `${name}: the service is stopping. ${unchanged}`);
  }
  if (networkCodes.test(code) || certificateCodes.test(code)) {
    return new FlowgateError("registry_unavailable", `${name}: the registry can't be reached (${code}). ${unchanged}`);
  }
  const reason = code === "E404" && absentIn(output) === name ? absent : "module_failed";
  return new FlowgateError(reason, `${name}: ${reasonOf(code, output, sizeMb)}. ${unchanged}`);
}

const failures: ReadonlySet<string> = new Set([
  "module_refused",
  "module_failed",
  "modules_busy",
  "registry_unavailable",
]);

/** True if modules could not be installed. */
export function isModuleFailure(error: unknown): error is FlowgateError {
  return error instanceof FlowgateError && failures.has(error.reason);
}

/** The package or version that the registry lacks; undefined if something else failed. */
export function explainAbsent({ code, output }: Pick<NpmError, "code" | "output">): string | undefined {
  switch (code) {
    case "E404":
      return `the registry has no package ${absentIn(output) ?? "of this name"}`;
    case "ETARGET":
      return `the registry has no version ${specIn(output)}`;
    default:
      return undefined;
  }
}

function reasonOf(code: string, output: string, sizeMb: number): string {
  switch (code) {
    case "missing":
      return "npm is not installed on the machine of the service, and modules are installed with it";
    case "size":
      return `the modules would take more than ${sizeMb} MiB (modules.sizeMb)`;
    case "git":
      return "a package requires another one from a git repository, which is not installed";
    case "E401":
    case "E403":
    case "ENEEDAUTH":
      return "the registry refuses access: modules.npmrc names a file with a token for it";
    case "EINTEGRITY":
      return "the registry sent a package that does not have the announced hash";
    case "ERESOLVE":
      return "it requires other versions of packages than modules that are installed";
    case "EBADENGINE":
      return "it requires another version of Node.js";
    case "ENOSPC":
    case "EDQUOT":
      return noSpace;
    default:
      return (
        explainAbsent({ code, output }) ??
        `npm has failed${code === "" ? "" : ` (${code})`}; the log of the service has its output`
      );
  }
}

/** The package that the registry does not have. */
function absentIn(output: string): string | undefined {
  const found = /'((?:@[\w.~-]+\/)?[\w.~-]+)@[^']*' (?:is not in|could not be found)/.exec(output)?.[1];
  return found !== undefined && isModuleName(found) ? found : undefined;
}

function specIn(output: string): string {
  const [, name = "", range = ""] =
    /No matching version found for ((?:@[\w.~-]+\/)?[\w.~-]+)@(\S+?)\.?$/m.exec(output) ?? [];
  return isModuleName(name) && isVersionRange(range) ? `${range} of ${name}` : "in this range";
}
