import type { MessageShape } from "@bufbuild/protobuf";
import { VerifyAuditResponseSchema } from "@flowgate/client";
import { CliFailure } from "../failure.ts";
import { printable } from "../printable.ts";
import type { Output } from "./output.ts";

/** Prints the result of a check of the audit log. Throws a CliFailure if the log does not pass it. */
export function printVerification(output: Output, response: MessageShape<typeof VerifyAuditResponseSchema>): void {
  const { intact, problem, entries, head } = response;
  if (intact || output.format !== undefined) {
    output.message(VerifyAuditResponseSchema, response, () => {
      const tip = head === "" ? "" : ` Head: ${printable(head)}`;
      return `The audit log is intact: ${entries} ${entries === 1 ? "entry" : "entries"}.${tip}`;
    });
  }
  if (!intact) {
    throw new CliFailure(`The audit log did not pass the check: ${printable(problem)}.`);
  }
}
