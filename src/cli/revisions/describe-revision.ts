import type { Revision } from "@flowgate/client";
import { printable } from "../printable.ts";
import { formatTime } from "../output/time.ts";

/** A user and, if it is a named one, the token of a request: `ada (token ci)`. */
export function describeCaller({ user, tokenName }: Pick<Revision, "user" | "tokenName">): string {
  return printable(tokenName === "" ? user : `${user} (token ${tokenName})`);
}

/** `revision 4fGx0aQz ("new invoices", by ada, 2026-03-01 09:30:00)` */
export function describeRevision({ rev, message, user, createTime }: Revision): string {
  const parts = [
    message === "" ? undefined : JSON.stringify(message),
    user === "" ? undefined : `by ${user}`,
    formatTime(createTime),
  ].filter((part) => part !== undefined);
  return printable(`revision ${shortRev(rev)} (${parts.join(", ")})`);
}

/** The beginning of a rev that tables show. It is unambiguous in practice. */
export function shortRev(rev: string): string {
  return rev.slice(0, 8);
}
