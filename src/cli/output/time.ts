import { type Timestamp, timestampDate } from "@bufbuild/protobuf/wkt";

const local = new Intl.DateTimeFormat("sv-SE", { dateStyle: "short", timeStyle: "medium" });

/** In the time zone of this machine: `2026-03-01 09:30:00`. Empty if absent. */
export function formatTime(time: Timestamp | undefined): string {
  return time === undefined ? "" : local.format(timestampDate(time));
}
