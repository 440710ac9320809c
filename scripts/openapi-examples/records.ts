import type { Examples } from "@flowgate/gateway";
import { json, nodeError, parentRev, rev } from "./values.ts";

const events = [
  {
    id: "20f6vz1e8lc",
    time: "2026-11-20T16:42:08.530Z",
    rev,
    deployment: { outcome: "running", user: "admin", message: "new greeting", type: "full", parent: parentRev },
  },
  { id: "20f6vz1e8lc", time: "2026-11-20T16:42:08.601Z", snapshotEnd: {} },
  nodeError,
];
const hash = "5f0c6d1e8f7a9b2c3d4e5f60718293a4b5c6d7e8f9012a3b4c5d6e7f80910a1b";
const auditEntry = {
  seq: 1204,
  time: "2026-11-20T16:42:07.318Z",
  kind: "deployment",
  user: "admin",
  address: "10.0.0.17",
  protocol: "rest",
  requestId: "k2Jd9xQ1-4f",
  subject: rev,
  detail: "full",
  count: 1,
  hash,
  tokenId: "4f0c2a9be8d15c7763a1f20e",
  digest: `${"8c1f".repeat(16)}.${"27ab".repeat(16)}`,
};

export const records: Examples = {
  AuditService_ListAuditEntries: {
    responses: {
      200: json({
        entries: {
          summary: "A deployment, and failed logins",
          value: {
            entries: [
              auditEntry,
              {
                seq: 1203,
                time: "2026-11-20T16:40:00.002Z",
                kind: "sign_in_failed",
                user: "admin",
                address: "10.0.0.17",
                protocol: "rest",
                requestId: "k2Jd9xQ1-3c",
                detail: "wrong password",
                count: 4,
                hash: hash.replace("5f0c", "c03e"),
              },
            ],
            nextPageToken: "MTIwMw",
          },
        },
      }),
    },
  },
  AuditService_ExportAudit: {
    responses: {
      200: {
        "application/x-ndjson": { entries: { value: `${JSON.stringify(auditEntry)}\n` } },
        "text/event-stream": { entries: { value: `data: ${JSON.stringify(auditEntry)}\n\n` } },
        "application/json": { entries: { value: [auditEntry] } },
      },
    },
  },
  AuditService_VerifyAudit: {
    responses: {
      200: json({
        intact: {
          summary: "Nothing was changed",
          value: { intact: true, entries: 1204, revisions: 310, head: `1204:${hash}` },
        },
        changed: {
          summary: "An entry was changed",
          value: {
            intact: false,
            problem: "entry 812 was changed, or is not the one that followed entry 811",
            entries: 811,
            revisions: 0,
            head: `811:${hash}`,
          },
        },
      }),
    },
  },
  EventsService_WatchEvents: {
    responses: {
      200: {
        "application/x-ndjson": { events: { value: events.map((event) => `${JSON.stringify(event)}\n`).join("") } },
        "text/event-stream": { events: { value: events.map((event) => formatEvent(event)).join("") } },
        "application/json": { events: { value: events } },
      },
    },
  },
  LogsService_ListLogs: {
    responses: {
      200: json({
        logs: { summary: "An error of a node", value: { logs: [nodeError], nextPageToken: "MjBmNnZ6MWh4YzAg" } },
      }),
    },
  },
};

function formatEvent({ id, ...event }: { readonly id: string }): string {
  const kind = Object.keys(event).at(-1) ?? "";
  const name = kind.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
  return `id: ${id}\nevent: ${name}\ndata: ${JSON.stringify({ id, ...event })}\n\n`;
}
