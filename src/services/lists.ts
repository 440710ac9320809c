import { type Timestamp, timestampMs } from "@bufbuild/protobuf/wkt";
import { FlowgateError } from "@flowgate/flows/errors";

// Pages of lists (AIP-158).

const defaultPageSize = 50;
const maxPageSize = 1000;

/** The number of items of a page; 0 selects the default. */
export function readPageSize(pageSize: number): number {
  if (pageSize < 0) {
    throw new FlowgateError("invalid_argument", "pageSize: must not be negative");
  }
  return Math.min(pageSize === 0 ? defaultPageSize : pageSize, maxPageSize);
}

/** Encodes the cursor of the next page, so that clients treat it as opaque. Empty on the last page. */
export function formatPageToken(cursor: number | undefined): string {
  return cursor === undefined ? "" : Buffer.from(String(cursor)).toString("base64url");
}

/** undefined: the first page. */
export function parsePageToken(token: string): number | undefined {
  if (token === "") {
    return undefined;
  }
  const text = Buffer.from(token, "base64url").toString();
  if (!/^\d{1,15}$/.test(text)) {
    throw new FlowgateError("invalid_argument", "pageToken: must be the nextPageToken of the previous page");
  }
  return Number(text);
}

/** Rounds up to whole milliseconds, which gives the same order relative to stored times, since those are whole. */
export function readTimestampMs(name: string, time: Timestamp | undefined): number | undefined {
  if (time === undefined) {
    return undefined;
  }
  const ms = Math.ceil(timestampMs(time));
  if (!Number.isSafeInteger(ms)) {
    throw new FlowgateError("invalid_argument", `${name}: is out of range`);
  }
  return ms;
}
