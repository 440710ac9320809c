import type { TestOptions } from "vitest";

/** The options of tests that need something of the machine. Where it is missing, they are skipped for this reason. */
export function needs(what: string, isThere: boolean): TestOptions {
  return isThere ? {} : { skip: true, meta: { skipReason: `they need ${what}, which is not here` } };
}

export const onLinux = needs("Linux", process.platform === "linux");
