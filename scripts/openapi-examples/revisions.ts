import type { Examples } from "@flowgate/gateway";
import { diff, diffText, json, nodes, parentRev, rev, revision } from "./values.ts";

export const revisions: Examples = {
  RevisionsService_ListRevisions: {
    responses: {
      200: json({
        page: {
          summary: "The newest revision, and the token of the next page",
          value: { revisions: [revision], nextPageToken: "MTIwNA" },
        },
      }),
      default: json({
        token: {
          summary: "An invalid page token",
          value: { code: "invalid_argument", message: "pageToken: must be the nextPageToken of the previous page" },
        },
      }),
    },
  },
  RevisionsService_GetRevision: {
    responses: {
      200: json({
        basic: { summary: "Without flows", value: revision },
        full: { summary: "?view=FULL", value: { ...revision, flows: nodes } },
      }),
      default: json({
        unknown: {
          summary: "No such revision",
          value: {
            code: "not_found",
            message: 'there is no revision "0198"; it may have been removed from the history',
          },
        },
      }),
    },
  },
  RevisionsService_UpdateRevision: {
    request: json({
      pin: { summary: "Keep it forever", value: { pinned: true } },
      message: { summary: "Change its message", value: { message: "before the migration" } },
    }),
    responses: { 200: json({ pinned: { value: { ...revision, pinned: true } } }) },
  },
  RevisionsService_RestoreRevision: {
    request: json({
      any: { summary: "Whichever revision is active", value: {} },
      guarded: { summary: "Only if this revision is still active", value: { activeRev: rev } },
    }),
    responses: { 200: json({ restored: { value: { rev: "Mv2xR7cHn4KfP0aLz8WtBQ" } } }) },
  },
  RevisionsService_DiffRevision: {
    responses: {
      200: {
        "application/json": { diff: { summary: "One node is changed", value: { base: parentRev, rev, diff } } },
        "text/plain": { diff: { summary: "The same for people", value: diffText } },
      },
    },
  },
};
