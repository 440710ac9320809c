import { type AuditEntry, AuditKind } from "@flowgate/client";

const aboutRevisions: ReadonlySet<AuditKind> = new Set([
  AuditKind.DEPLOYMENT,
  AuditKind.UNAPPROVED_DEPLOYMENT,
  AuditKind.REVISION_UPDATED,
  AuditKind.RUNTIME_RESTARTED,
  AuditKind.FLOWS_STARTED,
  AuditKind.FLOWS_STOPPED,
]);

const aboutProposals: ReadonlySet<AuditKind> = new Set([
  AuditKind.PROPOSAL_CREATED,
  AuditKind.PROPOSAL_APPROVED,
  AuditKind.PROPOSAL_REJECTED,
  AuditKind.PROPOSAL_WITHDRAWN,
]);

export function pathOfSubject({ kind, subject }: Pick<AuditEntry, "kind" | "subject">): string | undefined {
  if (subject === "") {
    return undefined;
  }
  if (aboutRevisions.has(kind)) {
    return `/history/${encodeURIComponent(subject)}`;
  }
  return aboutProposals.has(kind) ? `/proposals/${encodeURIComponent(subject)}` : undefined;
}
