import { type ReactNode, useEffect, useState } from "react";
import { type Timestamp, timestampDate } from "@bufbuild/protobuf/wkt";

const relative = new Intl.RelativeTimeFormat("en", { numeric: "auto", style: "short" });
const absolute = new Intl.DateTimeFormat("en", { dateStyle: "medium", timeStyle: "medium" });

const units = [
  ["day", 86_400],
  ["hour", 3_600],
  ["minute", 60],
] as const;

export function Time({ at }: { readonly at: Timestamp | undefined }): ReactNode {
  const now = useNow();
  if (at === undefined) {
    return null;
  }
  const date = timestampDate(at);
  return (
    <time dateTime={date.toISOString()} title={absolute.format(date)}>
      {formatAge((date.getTime() - now) / 1000)}
    </time>
  );
}

export function ExactTime({ at }: { readonly at: Timestamp | undefined }): ReactNode {
  return at === undefined ? null : (
    <time dateTime={timestampDate(at).toISOString()}>{absolute.format(timestampDate(at))}</time>
  );
}

/** Formats a time up to a minute ahead as now: the page's clock ticks slowly, and another machine's may differ. */
function formatAge(ahead: number): string {
  const seconds = ahead > 0 && ahead < 60 ? 0 : ahead;
  const [unit, size] = units.find(([, each]) => Math.abs(seconds) >= each) ?? (["second", 1] as const);
  return relative.format(Math.round(seconds / size), unit);
}

function useNow(): number {
  const [now, setNow] = useState(Date.now);
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), 20_000);
    return () => clearInterval(timer);
  }, []);
  return now;
}
