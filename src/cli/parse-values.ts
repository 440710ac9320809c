import { InvalidArgumentError } from "commander";

const secondsOf = { s: 1, m: 60, h: 3600, d: 86_400 } as const;

/** Parses a duration such as `30d`, `12h`, `15m` or `90s`, into seconds. */
export function parseDuration(text: string): number {
  const [, count = "", unit = ""] = /^(\d{1,9})([smhd])$/.exec(text) ?? [];
  const seconds = Number(count) * (secondsOf[unit as keyof typeof secondsOf] ?? Number.NaN);
  if (!(seconds > 0)) {
    throw new InvalidArgumentError("It must be a duration such as 30d, 12h, 15m or 90s.");
  }
  return seconds;
}

/** Parses a time, or the duration since then. */
export function parseTime(text: string): Date {
  if (/^\d+[smhd]$/.test(text)) {
    return new Date(Date.now() - parseDuration(text) * 1000);
  }
  const time = new Date(text);
  if (!/^\d{4}-\d{2}-\d{2}/.test(text) || Number.isNaN(time.getTime())) {
    throw new InvalidArgumentError(
      "It must be a time such as 2026-03-01T09:30:00Z, or a duration before now such as 24h.",
    );
  }
  return time;
}

/** Parses the number of items to list. */
export function parseLimit(text: string): number {
  const limit = /^\d{1,7}$/.test(text) ? Number(text) : 0;
  if (limit === 0) {
    throw new InvalidArgumentError("It must be a whole number from 1 to 9999999.");
  }
  return limit;
}
