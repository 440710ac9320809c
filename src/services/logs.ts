import type { ServiceImpl } from "@connectrpc/connect";
import type { LogsService } from "../../gen/flowgate/v1/logs_pb.ts";
import { FlowgateError } from "@flowgate/flows/errors";
import { readFilter, recordedCases } from "../events/events.ts";
import type { Journal } from "../events/journal.ts";
import { formatPosition, parsePosition } from "../events/position.ts";
import type { JournalCursor } from "../store/journal-store.ts";
import { readPageSize, readTimestampMs } from "./lists.ts";

export function logsService(journal: Pick<Journal, "list">): ServiceImpl<typeof LogsService> {
  return {
    async listLogs(request) {
      const { events, next } = await journal.list(readFilter(request, recordedCases), {
        limit: readPageSize(request.pageSize),
        after: parseLogCursor(request.pageToken),
        fromMs: readTimestampMs("since", request.since),
        untilMs: readTimestampMs("until", request.until),
      });
      return { logs: [...events], nextPageToken: formatLogCursor(next) };
    },
  };
}

function formatLogCursor(cursor: JournalCursor | undefined): string {
  return cursor === undefined
    ? ""
    : Buffer.from(`${formatPosition(cursor.seq)} ${cursor.runtime}`).toString("base64url");
}

function parseLogCursor(token: string): JournalCursor | undefined {
  if (token === "") {
    return undefined;
  }
  const [, seq, runtime] = /^([0-9a-z]{1,11}) (.*)$/s.exec(Buffer.from(token, "base64url").toString()) ?? [];
  if (seq === undefined || runtime === undefined) {
    throw new FlowgateError("invalid_argument", "pageToken: must be the nextPageToken of the previous page");
  }
  return { seq: parsePosition(seq, "pageToken"), runtime };
}
