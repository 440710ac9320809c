import { timestampFromDate } from "@bufbuild/protobuf/wkt";
import { type AuditEntry, type AuditKind, AuditKindSchema, ListAuditEntriesResponseSchema } from "@flowgate/client";
import type { ClientContext } from "../client/action.ts";
import { UsageFailure } from "../failure.ts";
import { printList } from "../output/list.ts";
import { printable } from "../printable.ts";
import { printVerification } from "../output/verification.ts";
import { describeCaller, formatEnum, formatTime, parseEnum } from "../output/values.ts";

export type AuditFlags = {
  readonly kind?: readonly string[];
  readonly user?: string;
  readonly since?: Date;
  readonly until?: Date;
  readonly limit: number;
};

export async function listAudit({ session, output }: ClientContext, flags: AuditFlags): Promise<void> {
  const { kind: kinds = [], user = "", since, until, limit } = flags;
  const filter = {
    kind: kinds.flatMap((word) => word.split(",")).map(parseKind),
    user,
    ...(since !== undefined && { startTime: timestampFromDate(since) }),
    ...(until !== undefined && { endTime: timestampFromDate(until) }),
  };
  await printList(output, {
    schema: ListAuditEntriesResponseSchema,
    limit,
    fetchPage: (page) => session.audit.listAuditEntries({ ...filter, ...page }),
    itemsOf: ({ entries }) => entries,
    none: "There are no such entries.",
    head: ["SEQ", "TIME", "KIND", "USER", "ADDRESS", "SUBJECT", "DETAIL"],
    toRow,
  });
}

function toRow(entry: AuditEntry): string[] {
  const { seq, time, kind, address, subject, detail, count } = entry;
  const times = count > 1 ? ` (${count} times)` : "";
  return [
    String(seq),
    formatTime(time),
    formatEnum(AuditKindSchema, kind),
    describeCaller(entry),
    address,
    subject,
    `${detail}${times}`,
  ];
}

function parseKind(word: string): AuditKind {
  const kind = parseEnum(AuditKindSchema, word.replaceAll("_", " "));
  if (kind === 0) {
    const known = AuditKindSchema.values.slice(1).map(({ localName }) => localName.toLowerCase());
    throw new UsageFailure(`--kind: there is no kind ${printable(word)}, only ${known.join(", ")}.`);
  }
  return kind;
}

export async function verifyAtServer({ session, output }: ClientContext, head: string | undefined): Promise<void> {
  printVerification(output, await session.audit.verifyAudit({ head: head ?? "" }));
}
