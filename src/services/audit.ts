import type { MessageInitShape } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import type { ServiceImpl } from "@connectrpc/connect";
import {
  type AuditEntrySchema,
  AuditKind as AuditKindMessage,
  AuditKindSchema,
  type AuditService,
} from "../../gen/flowgate/v1/audit_pb.ts";
import { enumValue, enumWord } from "@flowgate/base/enums";
import { FlowgateError } from "@flowgate/flows/errors";
import { formatHead, parseHead, type AuditEntry, type AuditKind, type AuditStore } from "../store/audit-store.ts";
import { formatPageToken, parsePageToken, readPageSize, readTimestampMs } from "./lists.ts";

/** The number of entries that an export reads at once, which takes a few milliseconds. */
const entriesPerRead = 500;

export function auditService(store: Pick<AuditStore, "list" | "verify">): ServiceImpl<typeof AuditService> {
  return {
    async listAuditEntries({ pageSize, pageToken, kind, user, startTime, endTime }) {
      const { entries, next } = await store.list({
        limit: readPageSize(pageSize),
        order: "newest",
        after: parsePageToken(pageToken),
        kinds: [...new Set(kind.map(toKind))],
        user: user === "" ? undefined : user,
        fromMs: readTimestampMs("startTime", startTime),
        untilMs: readTimestampMs("endTime", endTime),
      });
      return { entries: entries.map(toMessage), nextPageToken: formatPageToken(next) };
    },

    async *exportAudit({ afterSeq }) {
      let after: number | undefined = afterSeq;
      while (after !== undefined) {
        const page = await store.list({ limit: entriesPerRead, order: "oldest", after });
        for (const entry of page.entries) {
          yield { entry: toMessage(entry) };
        }
        after = page.next;
      }
    },

    async verifyAudit({ head: text }) {
      const expected = text === "" ? undefined : parseHead(text);
      if (text !== "" && expected === undefined) {
        throw new FlowgateError("invalid_argument", "head: must be the head of an earlier verification");
      }
      const { entries, revisions, head, problem } = await store.verify(expected);
      return {
        intact: problem === undefined,
        problem: problem ?? "",
        entries,
        revisions,
        head: head.seq === 0 ? "" : formatHead(head),
      };
    },
  };
}

function toKind(message: AuditKindMessage): AuditKind {
  const kind = enumWord(AuditKindMessage, message);
  if (kind === undefined || kind === "unspecified") {
    const known = AuditKindSchema.values.slice(1).map(({ localName }) => localName.toLowerCase());
    throw new FlowgateError("invalid_argument", `kind: must be one or several of: ${known.join(", ")}`);
  }
  return kind;
}

function toMessage(entry: AuditEntry): MessageInitShape<typeof AuditEntrySchema> {
  const { seq, timeMs, kind, origin, subject, detail, count, digest, hash } = entry;
  return {
    seq,
    time: timestampFromMs(timeMs),
    kind: enumValue(AuditKindMessage, kind),
    user: origin.by ?? "",
    tokenId: origin.token?.id ?? "",
    tokenName: origin.token?.name ?? "",
    address: origin.address ?? "",
    protocol: origin.protocol ?? "",
    requestId: origin.requestId ?? "",
    subject: subject ?? "",
    detail: detail ?? "",
    count,
    digest: digest ?? "",
    hash,
  };
}
