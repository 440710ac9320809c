import { type Timestamp, timestampMs } from "@bufbuild/protobuf/wkt";
import { FlowgateError } from "../errors.ts";

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
