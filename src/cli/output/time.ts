import { type Timestamp, timestampDate } from "@bufbuild/protobuf/wkt";

/** Created when it is first used: that takes 15 ms, and most commands print no time. */
let localFormat: Intl.DateTimeFormat | undefined;

/** In the time zone of this machine: `2026-03-01 09:30:00`. Empty if absent. */
export function formatTime(time: Timestamp | undefined): string {
  if (time === undefined) {
    return "";
  }
  localFormat ??= new Intl.DateTimeFormat("sv-SE", { dateStyle: "short", timeStyle: "medium" });
  return localFormat.format(timestampDate(time));
}
