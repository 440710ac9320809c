import { create } from "@bufbuild/protobuf";
import { VerifyAuditResponseSchema } from "@flowgate/client";
import type { Options } from "../../options/parse.ts";
import { formatHead, parseHead } from "../../store/audit-chain.ts";
import type { verifyAudit } from "../../store/open-store.ts";
import { printVerification } from "../audit/print-verification.ts";
import { CliFailure, usageFailure } from "../failure.ts";
import type { Output } from "../output/output.ts";

export type VerifyAuditOptions = {
  /** A head that was printed earlier. */
  readonly head: string | undefined;
  readonly options: Options;
  readonly verify: typeof verifyAudit;
  readonly output: Output;
};

/** Checks the audit log in the store, and prints the result as if the server had checked it. */
export async function verifyAuditCommand({ head, options, verify, output }: VerifyAuditOptions): Promise<void> {
  const expected = head === undefined ? undefined : parseHead(head);
  if (head !== undefined && expected === undefined) {
    throw usageFailure(
      "audit verify takes a head as it printed it earlier: a number, a colon and 64 hexadecimal digits.",
      "flowgate audit verify",
    );
  }
  const result = await verify(options, expected).catch((error: unknown) => {
    throw new CliFailure(`The audit log can't be read: ${error instanceof Error ? error.message : String(error)}`);
  });
  const { entries, revisions, problem } = result;
  printVerification(
    output,
    create(VerifyAuditResponseSchema, {
      intact: problem === undefined,
      problem: problem ?? "",
      entries,
      revisions,
      head: result.head.seq === 0 ? "" : formatHead(result.head),
    }),
  );
}
