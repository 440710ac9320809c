import type { MessageInitShape } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import type { ServiceImpl } from "@connectrpc/connect";
import {
  type AuditEntrySchema,
  AuditKind as AuditKindMessage,
  type AuditService,
} from "../../gen/flowgate/v1/audit_pb.ts";
import { FlowgateError } from "../errors.ts";
import { formatHead, parseHead, type AuditEntry, type AuditKind, type AuditStore } from "../store/audit-store.ts";
import { formatPageToken, parsePageToken, readPageSize, readTimestampMs } from "./lists.ts";

const kinds: Readonly<Record<AuditKind, AuditKindMessage>> = {
  sign_in: AuditKindMessage.SIGN_IN,
  sign_in_failed: AuditKindMessage.SIGN_IN_FAILED,
  token_created: AuditKindMessage.TOKEN_CREATED,
  token_revoked: AuditKindMessage.TOKEN_REVOKED,
  deployment: AuditKindMessage.DEPLOYMENT,
  revision_updated: AuditKindMessage.REVISION_UPDATED,
  permission_denied: AuditKindMessage.PERMISSION_DENIED,
  users_reloaded: AuditKindMessage.USERS_RELOADED,
  users_rejected: AuditKindMessage.USERS_REJECTED,
  audit_pruned: AuditKindMessage.AUDIT_PRUNED,
  store_restored: AuditKindMessage.STORE_RESTORED,
  store_migrated: AuditKindMessage.STORE_MIGRATED,
  runtime_restarted: AuditKindMessage.RUNTIME_RESTARTED,
  revisions_pruned: AuditKindMessage.REVISIONS_PRUNED,
  flows_started: AuditKindMessage.FLOWS_STARTED,
  flows_stopped: AuditKindMessage.FLOWS_STOPPED,
  node_injected: AuditKindMessage.NODE_INJECTED,
  context_set: AuditKindMessage.CONTEXT_SET,
  context_deleted: AuditKindMessage.CONTEXT_DELETED,
};

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
  const kind = (Object.keys(kinds) as AuditKind[]).find((each) => kinds[each] === message);
  if (kind === undefined) {
    throw new FlowgateError("invalid_argument", `kind: must be one or several of: ${Object.keys(kinds).join(", ")}`);
  }
  return kind;
}

function toMessage(entry: AuditEntry): MessageInitShape<typeof AuditEntrySchema> {
  const { seq, timeMs, kind, origin, subject, detail, count, digest, hash } = entry;
  return {
    seq,
    time: timestampFromMs(timeMs),
    kind: kinds[kind],
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
