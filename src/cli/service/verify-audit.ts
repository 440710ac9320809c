import type { Options } from "../../options/parse.ts";
import { formatHead, parseHead } from "../../store/audit-chain.ts";
import type { verifyAudit } from "../../store/open-store.ts";
import { CliFailure, usageFailure } from "../failure.ts";

/** Checks the audit log with `verify`, and prints its head. `head` is one that was printed earlier. */
export async function verifyAuditCommand(
  head: string | undefined,
  options: Options,
  verify: typeof verifyAudit,
): Promise<void> {
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
  if (result.problem !== undefined) {
    throw new CliFailure(`The audit log was changed: ${result.problem}.`);
  }
  const { entries } = result;
  const tip = result.head.seq === 0 ? "" : ` Head: ${formatHead(result.head)}`;
  process.stdout.write(`The audit log is intact: ${entries} ${entries === 1 ? "entry" : "entries"}.${tip}\n`);
}
